// `dtn-data listops`: the three files of Long ListOps, basic_train.tsv, basic_val.tsv and
// basic_test.tsv, whose bytes depend on the numbers asked for alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "data/listops/tree.h"

namespace dtn::listops {

struct WriteOptions {
  std::filesystem::path output;  // the folder
  std::uint64_t seed = 0;
  std::int64_t train = 96'000, val = 2'000, test = 2'000;
  TreeLimits limits;
  int jobs = 1;  // threads

  std::int64_t trees() const { return train + val + test; }
};

struct WriteReport {
  std::int64_t trees = 0, tries = 0, duplicates = 0;
  std::int64_t bytes = 0;
  bool stopped = false;  // and nothing was written
};

// Draws as many different trees as the files want, in the order train, val, test, and gives all three
// their names at the end: what is killed or fails before leaves none of them.
//
// Calls keep_going() now and then on this thread with the trees and bytes so far; false stops.
// Throws ConfigError for impossible numbers, for a request that cannot be met, and where the folder
// holds anything already or another process is writing to it; Error where a file cannot be written.
WriteReport write_files(
    const WriteOptions& options,
    const std::function<bool(std::int64_t trees, std::int64_t bytes)>& keep_going = {});

}  // namespace dtn::listops
