// Many different trees of ListOps, drawn by any number of threads.
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
  std::int64_t trees = 0;  // wanted
  int jobs = 1;            // threads
  // Tries in a row that bring no new tree, behind which there is no use in going on.
  std::int64_t most_idle_tries = 10'000'000;
};

struct DrawnTree {
  std::int64_t number;            // of the try that brought it
  std::span<const Token> tokens;  // these, and the line, until take() returns
  int value;
  std::string_view line;  // of a file: source, tab, value, line break
};

struct DrawReport {
  std::int64_t trees = 0;
  std::int64_t tries = 0;  // up to the one that brought the last tree
  std::int64_t duplicates = 0;
  bool stopped = false;
};

// Throws ConfigError, in the words of the command line, for limits that are impossible or that as many
// trees do not meet, as far as that is cheap to tell.
void check_drawing(const DrawOptions& options);

// Draws tree after tree by their numbers from 0 on, and calls take() on this thread for each that is
// within the limits and was not there before, in the order of numbers, until there are as many as
// wanted. What take() sees depends on limits and seed alone. Calls keep_going() now and then with
// the number of trees so far; false ends it. Throws what check_drawing() does, and ConfigError where
// no new trees come any more.
DrawReport draw_trees(const DrawOptions& options, const std::function<void(const DrawnTree&)>& take,
                      const std::function<bool(std::int64_t trees)>& keep_going = {});

}  // namespace dtn::listops
