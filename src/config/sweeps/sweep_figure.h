// Figures in the file of a collection of sweeps.
#pragma once

#include <span>
#include <string>

#include "config/document.h"
#include "config/sweeps/sweep_config.h"

namespace dtn::config {

// True if the entry of `sweeps:` has a key of a figure that no other entry has.
bool is_figure(const Node& entry);

// Returns the title of a figure.
std::string read_title(const Node& entry);

// Reads a figure. Its runs have a sweep, a variant and, if the file names one, a seed.
SweepFigure read_figure(const Node& entry);

// Completes the runs of a figure from the sweeps of its collection. Throws an error at the run if
// there is no such sweep, variant or seed.
void find_runs(const Node& entry, std::span<const CollectedSweep> tables, SweepFigure& figure);

}  // namespace dtn::config
