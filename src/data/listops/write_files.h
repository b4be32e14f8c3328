// `dtn-data listops` writes the three files of Long ListOps, basic_train.tsv, basic_val.tsv and
// basic_test.tsv. Their bytes depend only on the seed, the limits and the numbers of trees.
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
  bool stopped = false;  // then no file was written
};

// Draws as many different trees as the files need, in the order train, val, test. All three files
// get their names at the end, so a run that is killed or fails before leaves none of them.
//
// Calls keep_going() on this thread from time to time with the trees and bytes so far; false stops.
// Throws ConfigError for impossible numbers, for a request that cannot be met, and if the folder is
// not empty or another process is writing to it. Throws Error if a file cannot be written.
WriteReport write_files(
    const WriteOptions& options,
    const std::function<bool(std::int64_t trees, std::int64_t bytes)>& keep_going = {});

}  // namespace dtn::listops
