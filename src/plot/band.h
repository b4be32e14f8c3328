// Several runs in one line.
#pragma once

#include <span>

#include "plot/panel.h"

namespace dtn::plot {

// Returns the mean of the runs' y at each x that at least one run has, with a band from the minimum
// to the maximum if there are several runs. Ignores labels, styles and bands of the runs, and skips
// missing values.
Series mean_of(std::span<const Series> runs);

// Returns a line with at most `points` points, each the mean of equally many neighbours. A line
// that becomes shorter loses its band.
Series coarser(const Series& series, std::size_t points);

}  // namespace dtn::plot
