// The words of ListOps and their fixed ids, and expressions as lists of tokens: an operator, its
// arguments, which may be expressions again, and `]`; or a single digit.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtn::listops {

// 0 is padding. 16 is reserved for unknown words, which no sequence has. A table of embeddings has
// 17 rows, as in the Long-Range Arena.
using Token = std::uint8_t;

inline constexpr Token kDigitZero = 1;  // digits have the ids 1 .. 10
inline constexpr Token kMax = 11, kMed = 12, kMin = 13, kSum = 14, kClose = 15;
inline constexpr int kDigits = 10;
inline constexpr int kOperators = 4;
inline constexpr int kVocabulary = 17;

inline constexpr std::array<std::string_view, kVocabulary> kWords = {
    "", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "[MAX", "[MED", "[MIN", "[SM", "]", ""};

constexpr bool is_digit(Token token) { return kDigitZero <= token && token < kDigitZero + kDigits; }
constexpr bool is_operator(Token token) { return kMax <= token && token <= kSum; }
constexpr int digit_of(Token token) { return token - kDigitZero; }

// Returns null if the tokens are an expression; otherwise a reason that continues "the source ".
const char* fault_of(std::span<const Token> tokens);

// Returns the value of an expression, a digit. [MIN and [MAX give the least and the largest
// argument, and [SM the last digit of their sum. [MED gives the middle argument or, for an even
// number, the mean of the middle two, rounded down.
int value_of(std::span<const Token> expression);

// Writes expressions as in their files: pairs nested to the left. The operator is paired with its
// first argument, this pair with the second, ..., and all with `]`. MAX(4, 3) becomes
//     ( ( ( [MAX 4 ) 3 ) ] )
class Speller {
 public:
  void append(std::span<const Token> expression, std::string& text);

 private:
  void count_arguments(std::span<const Token> expression);

  std::vector<std::size_t> arguments_;  // arguments of the operator at each place
  std::vector<std::size_t> open_;       // places of operators that are not closed
};

}  // namespace dtn::listops
