// Positions from which the heads of Dynamic Token Normalization gather the statistics of one token:
// the keys p_...
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/analyze/collector.h"

namespace dtn {

// Returns the center token of a grid: row floor((h - 1) / 2), column floor(w / 2).
std::int64_t center_token(const TokenGrid& grid);

// Figures of one row of P, [h w] with sum 1, for the token `query`.
struct PositionFigures {
  double offset_x, offset_y;  // mean position, relative to the token's own
  double radius;              // root mean square distance from the mean position
  double tokens;              // exp(entropy): effective number of tokens
};
PositionFigures figures_of(const double* row, const TokenGrid& grid, std::int64_t query);

// Adds center_token, p_center_token, p_offset, p_radius and p_tokens. `one_grid`: all layers have
// the same grid, so center_token is one number. Throws ConfigError for a token that no layer has.
void add_positions(const Collector&, std::optional<std::int64_t> token, bool one_grid,
                   nlohmann::ordered_json& json);

}  // namespace dtn
