// Numbers of one model as the JSON object that docs/analyze.md describes.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/analyze/collector.h"
#include "apps/analyze/measurements.h"
#include "apps/analyze/subject.h"

namespace dtn {

struct SubjectNumbers {
  const OpenSubject& subject;
  const Collector& collector;
  std::optional<GradientNorms> gradients;
  std::optional<std::int64_t> token;  // see AnalysisOptions
};

nlohmann::ordered_json to_json(const SubjectNumbers&);

// Returns the center token of a grid: row floor((h - 1) / 2), column floor(w / 2).
std::int64_t center_token(const TokenGrid& grid);

// Figures of one row of P, [h w] with sum 1, for the token `query`.
struct PositionFigures {
  double offset_x, offset_y;  // mean position, relative to the token's own
  double radius;              // root mean square distance from the mean position
  double tokens;              // exp(entropy): effective number of tokens
};
PositionFigures figures_of(const double* row, const TokenGrid& grid, std::int64_t query);

// Replaces numbers that are not finite by nulls; returns their count.
std::int64_t drop_non_finite(nlohmann::ordered_json& json);

}  // namespace dtn
