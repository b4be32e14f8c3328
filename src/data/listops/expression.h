// What a list of tokens says: an operator, its arguments, which may be such lists again, and `]`; or
// a single digit.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/listops/vocabulary.h"

namespace dtn::listops {

// Why the tokens are no expression, in words that go behind "the source "; null when they are one.
const char* fault_of(std::span<const Token> tokens);

// The digit that an expression comes to. [MIN and [MAX take the least and the largest argument, [SM
// the last digit of their sum, and [MED the middle one or, of an even number, the mean of the two in
// the middle, rounded down.
int value_of(std::span<const Token> expression);

// Writes expressions as their files have them: pairs nested to the left, the operator with its first
// argument, these with the second, ..., all with `]`. "( ( ( [MAX 4 ) 3 ) ] )" is MAX(4, 3).
class Speller {
 public:
  void append(std::span<const Token> expression, std::string& text);

 private:
  void count_arguments(std::span<const Token> expression);

  std::vector<std::size_t> arguments_;  // of the operator at each place
  std::vector<std::size_t> open_;       // places of operators without their `]`
};

}  // namespace dtn::listops
