// Draws many different trees of ListOps with any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "data/listops/tree.h"

namespace dtn::listops {

struct DrawOptions {
  TreeLimits limits;
  std::uint64_t seed = 0;
  std::int64_t trees = 0;  // number of trees wanted
  int jobs = 1;            // threads
  // Consecutive tries without a new tree after which drawing gives up.
  std::int64_t most_idle_tries = 10'000'000;
};

struct DrawnTree {
  std::int64_t number;            // number of its try
  std::span<const Token> tokens;  // valid until take() returns, like `line`
  int value;
  std::string_view line;  // line in a file: source, tab, value, line break
};

struct DrawReport {
  std::int64_t trees = 0;
  std::int64_t tries = 0;  // up to the try of the last tree
  std::int64_t duplicates = 0;
  bool stopped = false;
};

// Throws ConfigError, in the words of the command line, for impossible limits. Also throws it if
// fewer trees than wanted meet the limits, as far as that is cheap to decide.
void check_drawing(const DrawOptions& options);

// Draws trees by their numbers from 0 on, until the wanted number is reached. Calls take() on this
// thread for each new tree within the limits, in the order of numbers. The calls of take() depend
// only on limits and seed. Calls keep_going() from time to time with the number of trees so far;
// false ends the drawing. Throws as check_drawing() does, and ConfigError if it finds no more new
// trees.
DrawReport draw_trees(const DrawOptions& options, const std::function<void(const DrawnTree&)>& take,
                      const std::function<bool(std::int64_t trees)>& keep_going = {});

}  // namespace dtn::listops
