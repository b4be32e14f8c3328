// `dtn-data shapes` writes a data set for detectors in COCO's layout:
//
//   train/*.png  val/*.png  annotations/instances_train.json  annotations/instances_val.json
//
// The bytes depend only on seed, size and numbers of pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace dtn::shapes {

struct ShapesOptions {
  std::filesystem::path output;  // the folder
  std::uint64_t seed = 0;
  std::int64_t train = 400, val = 100;  // pictures
  std::int64_t size = 128;              // longer side of a picture, pixels

  std::int64_t all_pictures() const { return train + val; }
};

// Totals of both splits. If the work was stopped, nothing was written.
struct ShapesReport {
  std::int64_t pictures = 0, shapes = 0, crowds = 0;
  std::int64_t empty = 0;  // pictures without an object
  std::int64_t bytes = 0;  // of all files
  bool stopped = false;
};

// Makes the data set. Its three folders get their names at the end, so a run that is killed or
// fails before leaves none of them.
//
// Calls keep_going() on this thread from time to time with the pictures so far; false stops.
// Throws ConfigError, in the words of the command line, for impossible numbers, for a folder that
// is not empty, and if another process writes to it. Throws Error if a file cannot be written.
ShapesReport write_shapes(const ShapesOptions& options,
                          const std::function<bool(std::int64_t pictures)>& keep_going = {});

}  // namespace dtn::shapes
