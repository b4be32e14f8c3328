// Packs a data set into one file, which `data.dataset: packed` reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "dtn/config/data_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

struct PackOptions {
  // Images with a longer short side are resized to this length of the short side (as torchvision's
  // Resize on a Pillow image) and encoded as JPEG. All other images keep the bytes of their file.
  // If this is not set, all images do.
  std::optional<int> short_side;
  int quality = 95;  // quality of resized JPEGs, 1 .. 100
  Interpolation interpolation = Interpolation::kBicubic;
  Resample resample = Resample::kPillow13;
  int jobs = 1;  // threads that read, resize and encode
  // Limits on the work to repeat after a kill; the smaller one counts.
  std::int64_t sync_bytes = 64ll << 20;
  double sync_seconds = 0.5;
};

struct PackProgress {
  std::int64_t images = 0;   // in the file, including those of earlier runs
  std::int64_t bytes = 0;    // size of the file
  std::int64_t resized = 0;  // by this run
};

struct PackReport {
  std::int64_t images = 0, bytes = 0;
  std::int64_t resumed_at = 0;   // images packed by earlier runs
  std::int64_t resized = 0;      // by this run
  std::int64_t undecodable = 0;  // by this run: kept as they are, since they cannot be resized
  bool stopped = false;          // by `keep_going`; the next run continues from here
};

// Writes `output`. Its contents depend only on the data set and the options down to `resample`.
// Until the file is complete, its name is `<output>.partial`, and `<output>.partial.journal`
// records the progress. A later run with the same data set and options continues from there,
// whatever ended the earlier run.
//
// Images of data sets without files (idx, cifar, synthetic) are encoded as PNG. Throws ConfigError
// for a data set without pixels, if `output` exists, or if a partial file belongs to another job.
// Throws DataError if a sample cannot be read, and Error if the system refuses, as on a full disk.
// Calls `keep_going` from time to time on the calling thread, and `on_damaged` for undecodable
// images.
PackReport pack_dataset(const Dataset& dataset, const std::filesystem::path& output,
                        const PackOptions& options,
                        const std::function<bool(const PackProgress&)>& keep_going = {},
                        const std::function<void(const std::string& what)>& on_damaged = {});

}  // namespace dtn
