// The page of a collection: every table of a paper beside ours.
#pragma once

#include <span>
#include <string>

#include "config/sweep_collection.h"
#include "sweep/sweep_report.h"

namespace dtn {

// `reports` in the order of those tables of the collection that have a sweep.
std::string collection_page(const SweepCollection& collection,
                            std::span<const SweepReport> reports);

}  // namespace dtn
