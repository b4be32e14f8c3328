// Random trees of ListOps. A node at depth d, the root's being 1, is an operator with probability
// 1/4 where d < max_depth, else a digit; digits, operators and the number of arguments, from 2 to
// max_args, are uniform. (Tay et al., "Long Range Arena", 2021.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/listops/vocabulary.h"

namespace dtn::listops {

inline constexpr int kFewestArgs = 2;

// Which trees are wanted. A digit is a token; an operator and its `]` are two.
struct TreeLimits {
  std::int64_t min_length = 500, max_length = 2000;  // both exclusive
  int max_depth = 10, max_args = 10;
};

// Throws ConfigError, in the words of the command line, for numbers that are impossible or that no
// tree meets as far as that is cheap to tell.
void check_limits(const TreeLimits& limits);

// How many different trees there are within the limits; nothing where that takes long to count, as
// of long trees, of which there are more than anybody can have. At most 10^18 is said.
std::optional<std::int64_t> count_trees(const TreeLimits& limits);

// Draws trees one after another into the same memory.
class TreeDrawer {
 public:
  TreeDrawer(const TreeLimits& limits, std::uint64_t seed);

  // The tokens of the tree that seed and number alone decide, valid until the next call; none where
  // it is shorter or longer than wanted. It is given up as soon as it must become too long.
  std::span<const Token> draw(std::uint64_t number);

 private:
  TreeLimits limits_;
  std::uint64_t seed_;
  std::vector<Token> tokens_;  // [max_length]
  std::vector<int> left_;      // [max_depth + 1], nodes to be drawn yet at each depth
};

}  // namespace dtn::listops
