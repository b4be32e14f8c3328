// Several runs as one line.
#pragma once

#include <span>

#include "plot/panel.h"

namespace dtn::plot {

// The mean of the runs' y at each x that some of them have, between the least and the largest where
// there are several runs. Their labels, styles and bands do not count; values that are missing are
// left out.
Series mean_of(std::span<const Series> runs);

// The same line with at most `points` points, each the mean of as many neighbours.
Series coarser(const Series& series, std::size_t points);

}  // namespace dtn::plot
