// Where the heads of Dynamic Token Normalization gather the statistics of one token: the keys p_...
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "analyze/collector.h"

namespace dtn {

// The token in the middle of a grid: that of row floor((h - 1) / 2) and column floor(w / 2).
std::int64_t center_token(const TokenGrid& grid);

// What one row of P says: [h w] with the sum 1, of the token `query`.
struct PositionFigures {
  double offset_x, offset_y;  // the mean place it looks at, relative to its own
  double radius;              // root mean square distance from there
  double tokens;              // exp(entropy): how many tokens take part
};
PositionFigures figures_of(const double* row, const TokenGrid& grid, std::int64_t query);

// Adds center_token, p_center_token, p_offset, p_radius and p_tokens. `one_grid`: all layers have
// the same, and one token. Throws ConfigError for a token that no layer has.
void add_positions(const Collector&, std::optional<std::int64_t> token, bool one_grid,
                   nlohmann::ordered_json& json);

}  // namespace dtn
