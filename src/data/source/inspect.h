// Looking at every image of a data set: can it be read, and what is in it.
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

// Smallest, middle (the lower of two) and largest of a set of numbers.
struct Spread {
  std::int64_t min = 0, median = 0, max = 0;
};

// What the images that can be read are like. All numbers are the same whatever the number of
// threads: pixels are summed as whole numbers.
struct DatasetStats {
  std::int64_t images = 0;                      // read
  std::vector<std::int64_t> per_class;          // [num_classes]
  Spread width, height;                         // pixels
  Spread bytes;                                 // of the files; zeros when there are none
  std::map<std::string, std::int64_t> formats;  // jpeg, png, ...; none without files
  std::int64_t gray = 0;                        // images of a single channel
  std::array<double, 3> mean{}, std{};          // of all pixels as RGB in [0, 1]
  std::vector<BadSample> bad;                   // in the order of the data set
};

// Called now and then on the calling thread with the number of samples looked at; false ends it.
using KeepLooking = std::function<bool(std::int64_t done)>;

enum class VerifyDepth {
  kRead,    // read, and compare with the checksums of a packed file
  kDecode,  // decode as well
};

// Looks at every sample on `jobs` threads and returns those that fail, in order.
std::vector<BadSample> verify_dataset(const Dataset& dataset, VerifyDepth depth, int jobs,
                                      const KeepLooking& keep_looking = {});

// ConfigError for a data set without pixels.
DatasetStats dataset_stats(const Dataset& dataset, int jobs, const KeepLooking& keep_looking = {});

}  // namespace dtn
