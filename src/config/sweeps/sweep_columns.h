// `columns:` of a sweep file.
#pragma once

#include <vector>

#include "config/document.h"
#include "config/sweeps/sweep_config.h"

namespace dtn::config {

// Reads the value of `columns:`, a list of names, or of maps of name and label; null: none. The
// names are not compared with the evaluations of a task, which may log more than its figures.
std::vector<SweepColumn> read_columns(const Node& node);

}  // namespace dtn::config
