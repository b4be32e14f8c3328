// The images of an evaluation of a detector that a report shows.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/core/detection_examples.h"

namespace dtn {

class Communicator;

// Returns the positions of the images of a data set that are shown: eight at equal distances, or
// all of a smaller set. Ascending. They are the same at each evaluation.
std::vector<std::int64_t> example_images(std::int64_t samples);

// Returns the images of all ranks by ascending position, the same on each rank. An image that
// several ranks have appears once.
std::vector<DetectionExample> gather_examples(const std::vector<DetectionExample>& own,
                                              Communicator& ranks);

}  // namespace dtn
