// Examines every image of a data set: if it can be read, and its properties.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dtn/data/dataset.h"

namespace dtn {

struct BadSample {
  std::int64_t index = 0;
  std::string name, reason;
};

// Smallest, median (the lower of two) and largest of a set of numbers.
struct Spread {
  std::int64_t min = 0, median = 0, max = 0;
};

// Statistics of the images that can be read. They do not depend on the number of threads, because
// pixels are summed as integers.
struct DatasetStats {
  std::int64_t images = 0;                      // readable images
  std::vector<std::int64_t> per_class;          // [num_classes]
  std::int64_t without_class = 0;               // images, if each has any number of classes
  Spread width, height;                         // pixels
  Spread bytes;                                 // file sizes; zeros without files
  std::map<std::string, std::int64_t> formats;  // jpeg, png, ...; empty without files
  std::int64_t gray = 0;                        // images of a single channel
  std::array<double, 3> mean{}, std{};          // over all pixels as RGB in [0, 1]
  std::vector<BadSample> bad;                   // in the order of the data set
};

// Called from time to time on the calling thread with the number of samples examined; false stops.
using KeepLooking = std::function<bool(std::int64_t done)>;

enum class VerifyDepth {
  kRead,    // read, and compare with the checksums of a packed file
  kDecode,  // decode as well
};

// Examines every sample on `jobs` threads and returns the samples that fail, in order.
std::vector<BadSample> verify_dataset(const Dataset& dataset, VerifyDepth depth, int jobs,
                                      const KeepLooking& keep_looking = {});

// Throws ConfigError for a data set without pixels.
DatasetStats dataset_stats(const Dataset& dataset, int jobs, const KeepLooking& keep_looking = {});

}  // namespace dtn
