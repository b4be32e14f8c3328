// COCO's twelve figures as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tasks/coco_figures/evaluator.h"

namespace dtn::app {

// The figures of boxes or of masks.
struct CocoFigures {
  OverlapKind kind;
  CocoReport report;
};

// A table in percent, with a dash where no category has a truth.
std::string coco_table(const std::vector<CocoFigures>& figures);
// {"bbox": {"AP": ...}, "segm": ...}, fractions, -1 where no category has a truth.
nlohmann::ordered_json coco_json(const std::vector<CocoFigures>& figures);

}  // namespace dtn::app
