// `dtn-data listops` writes the three files of Long ListOps, basic_train.tsv, basic_val.tsv and
// basic_test.tsv. Their bytes depend only on the seed, the limits and the numbers of trees.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "data/listops/draw_trees.h"

namespace dtn::listops {

// The number of trees to draw is that of all files.
struct WriteOptions : DrawOptions {
  std::filesystem::path output;  // the folder
  std::int64_t train = 96'000, val = 2'000, test = 2'000;

  std::int64_t all_trees() const { return train + val + test; }
};

// If drawing was stopped, no file was written.
struct WriteReport : DrawReport {
  std::int64_t bytes = 0;
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
