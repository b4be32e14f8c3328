// Draws a small, balanced part of a data set.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtn {

// Returns the positions of `count` different samples, or of all samples if there are fewer. The
// classes take turns in a random order, each with a random sample that is not drawn yet, until they
// have no more. So the numbers of samples of two classes differ by at most one, unless a class is
// used up, and a smaller draw is the beginning of a larger one. `labels` has the class of each
// sample. The draw depends on the arguments alone.
std::vector<std::int64_t> draw_over_classes(std::span<const std::int64_t> labels,
                                            std::int64_t count, std::uint64_t seed);

}  // namespace dtn
