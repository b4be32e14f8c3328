// Numbers of samples of the classes of a data set, and messages about them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// Returns the class of each sample; empty if the classes are unknown.
std::vector<std::int64_t> labels_of(const Dataset& dataset);

// Returns the number of samples of each class, [classes]; more if a label is not below `classes`.
std::vector<std::int64_t> class_counts(std::span<const std::int64_t> labels,
                                       std::int64_t classes = 0);

// The smallest and the largest class among those with samples; the first of equals.
struct ClassSpread {
  std::int64_t classes = 0;  // with samples
  std::int64_t smallest = -1, largest = -1;
  std::int64_t fewest = 0, most = 0;  // their samples

  // True if the largest class has at least ten times the samples of the smallest.
  bool is_uneven() const { return classes > 1 && most >= 10 * fewest; }
};
ClassSpread class_spread(std::span<const std::int64_t> counts);

// "balanced over 7 classes of 12 to 3402 images"
std::string balanced_text(const ClassSpread& spread, const std::string& noun);

// A remark on very uneven classes, with the keys that help; empty if they are not very uneven.
// `names` may be empty. `weights`: train.class_weights helps, too.
std::string uneven_text(const ClassSpread& spread, const std::vector<std::string>& names,
                        const std::string& noun, bool weights = true);

}  // namespace dtn
