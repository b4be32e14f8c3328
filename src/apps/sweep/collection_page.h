// Page of a collection: every table of a paper beside our results.
#pragma once

#include <span>
#include <string>

#include "apps/sweep/sweep_report.h"
#include "config/sweep_config.h"

namespace dtn {

// `reports` has the order of the collection's tables that have a sweep.
std::string collection_page(const SweepCollection& collection,
                            std::span<const SweepReport> reports);

}  // namespace dtn
