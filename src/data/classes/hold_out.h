// Divides the images of one folder into a training and a validation split (data.split).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "dtn/data/dataset.h"

namespace dtn {

// Returns a number in [0, 1) that depends on the seed and the name alone. An image is held out if
// its number, by Dataset::file_name(), is below the share.
double hold_out_number(std::uint64_t seed, std::string_view file_name);

// Returns the samples of `whole` that are held out for validation, or all others for training. The
// share in (0, 1) is that of each class in the mean. The seed and the name of a file decide where
// the file belongs, whatever other files there are. Each class has at least one sample for training
// and, if it has two or more, one for validation: those with the largest and the smallest number.
// Samples with several classes ("labels" of Dataset::ready_fields()) are moved for the rarest class
// first, and for validation only if they are missed by no other class.
//
// For the validation split, logs the classes that have no sample there.
// Throws DataError if no sample is left for validation.
std::unique_ptr<Dataset> hold_out(const std::shared_ptr<const Dataset>& whole, Split split,
                                  double share, std::uint64_t seed);

}  // namespace dtn
