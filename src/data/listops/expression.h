// Expressions as lists of tokens: an operator, its arguments, which may be expressions again, and
// `]`; or a single digit.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/listops/vocabulary.h"

namespace dtn::listops {

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
