// Random trees of ListOps. A node at depth d (the root has depth 1) is an operator with probability
// 1/4 if d < max_depth, and otherwise a digit. Digits, operators and the number of arguments, from
// 2 to max_args, are uniform. (Tay et al., "Long Range Arena", 2021.)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/listops/expression.h"

namespace dtn::listops {

inline constexpr int kMinArgs = 2;

// Limits on trees. A digit is one token; an operator and its `]` are two.
struct TreeLimits {
  std::int64_t min_length = 500, max_length = 2000;  // both exclusive
  int max_depth = 10, max_args = 10;
};

// Throws ConfigError, in the words of the command line, for impossible numbers. Also throws it for
// limits that no tree meets, as far as that is cheap to decide.
void check_limits(const TreeLimits& limits);

// Returns the number of different trees within the limits, at most 10^18. Returns nothing for long
// trees, which take long to count and are more numerous than any request.
std::optional<std::int64_t> count_trees(const TreeLimits& limits);

// Draws trees one after another into the same memory.
class TreeDrawer {
 public:
  TreeDrawer(const TreeLimits& limits, std::uint64_t seed);

  // Returns the tokens of a tree, which depends only on limits, seed and number. They are valid
  // until the next call. The result is empty if the tree is shorter or longer than wanted. Drawing
  // stops as soon as the tree must become too long.
  std::span<const Token> draw(std::uint64_t number);

 private:
  TreeLimits limits_;
  std::uint64_t seed_;
  std::vector<Token> tokens_;  // [max_length]
  std::vector<int> left_;      // [max_depth + 1], nodes still to draw at each depth
};

}  // namespace dtn::listops
