// Packing a data set into one file, which `data.dataset: packed` reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "dtn/config/data_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

struct PackOptions {
  // Images whose short side is longer are resized so that it has this many pixels (as torchvision's
  // Resize on a Pillow image) and encoded as JPEG. The others, and without this all of them, keep
  // the bytes of their file.
  std::optional<int> short_side;
  int quality = 95;  // of the JPEGs that are made, 1 .. 100
  Interpolation interpolation = Interpolation::kBicubic;
  Resample resample = Resample::kPillow13;
  int jobs = 1;  // threads that read, resize and encode
  // How much may have to be done again after a kill: the shorter of the two.
  std::int64_t sync_bytes = 64ll << 20;
  double sync_seconds = 0.5;
};

struct PackProgress {
  std::int64_t images = 0;   // in the file, those of earlier runs included
  std::int64_t bytes = 0;    // of the file
  std::int64_t resized = 0;  // by this run
};

struct PackReport {
  std::int64_t images = 0, bytes = 0;
  std::int64_t resumed_at = 0;   // images that an earlier run had packed
  std::int64_t resized = 0;      // by this run
  std::int64_t undecodable = 0;  // by this run: kept as they are, since they cannot be resized
  bool stopped = false;          // by `keep_going`; the next run goes on from here
};

// Writes `output`. What it holds depends on the data set, the options down to
// `resample` alone. Until it is whole it is called `<output>.partial`, and `<output>.partial.journal` says how
// far it is: a later run with the same data set and options goes on from there, whatever ended the
// earlier one.
//
// Images of data sets without files (idx, cifar, synthetic) are encoded as PNG. ConfigError for a
// data set without pixels, when `output` exists or when a partial file belongs to another job;
// DataError when a sample cannot be read; Error when the system refuses, as on a full disk.
// `keep_going` is called now and then from the calling thread, `on_damaged` for images that cannot
// be decoded.
PackReport pack_dataset(const Dataset& dataset, const std::filesystem::path& output,
                        const PackOptions& options,
                        const std::function<bool(const PackProgress&)>& keep_going = {},
                        const std::function<void(const std::string& what)>& on_damaged = {});

}  // namespace dtn
