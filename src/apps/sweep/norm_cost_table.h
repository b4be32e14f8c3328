// The cost of one layer of each of several normalizers, counted on the meta device.
#pragma once

#include "apps/sweep/sweep_report.h"
#include "config/sweeps/sweep_config.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Returns a row for each normalizer: its parameters and its multiply-adds for one sample, with a
// dense P and as computed, beside the paper's formulas.
TableText norm_cost_table(const NormCosts& costs, const Registries& registries);
// Returns the sizes on which the formulas depend, then the notes of the table.
std::vector<std::string> norm_cost_notes(const NormCosts& costs);

}  // namespace dtn
