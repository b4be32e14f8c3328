#include "apps/analyze/position_json.h"

#include <cmath>

#include "apps/analyze/layer_json.h"
#include "dtn/core/check.h"
#include "dtn/nn/normalizer.h"

namespace dtn {
namespace {

// Rows of P for the center token, or for `token`; undefined if the grid lacks it.
Tensor rows_of(const SiteStatistics& site, std::optional<std::int64_t> token) {
  const TokenGrid& grid = site.grid();
  const std::int64_t query = token.value_or(center_token(grid));
  if (query >= grid.height * grid.width) return {};
  return site.norm()->position_rows(grid, query);
}

// Lists f(row, grid, query) of every head.
template <class F>
Json per_head(const SiteStatistics& site, std::optional<std::int64_t> token, F&& f) {
  const Tensor rows = rows_of(site, token);
  if (!rows.defined()) return {};
  Json heads = Json::array();
  for (std::int64_t h = 0; h < rows.dim(0); ++h) {
    heads.push_back(f(rows.data<double>() + h * rows.dim(1), site.grid(),
                      token.value_or(center_token(site.grid()))));
  }
  return heads;
}

}  // namespace

std::int64_t center_token(const TokenGrid& grid) {
  return (grid.height - 1) / 2 * grid.width + grid.width / 2;
}

PositionFigures figures_of(const double* row, const TokenGrid& grid, std::int64_t query) {
  PositionFigures f{0, 0, 0, 0};
  double squares = 0, entropy = 0;
  for (std::int64_t j = 0; j < grid.height * grid.width; ++j) {
    const auto dx = static_cast<double>(j % grid.width - query % grid.width);
    const auto dy = static_cast<double>(j / grid.width - query / grid.width);
    f.offset_x += row[j] * dx;
    f.offset_y += row[j] * dy;
    squares += row[j] * (dx * dx + dy * dy);
    if (row[j] != 0) entropy -= row[j] * std::log(row[j]);
  }
  const double around = squares - f.offset_x * f.offset_x - f.offset_y * f.offset_y;
  f.radius = std::sqrt(around < 0 ? 0 : around);  // rounding may make it negative
  f.tokens = std::exp(entropy);
  return f;
}

void add_positions(const Collector& collector, std::optional<std::int64_t> token, bool one_grid,
                   Json& json) {
  const auto& layers = collector.layers();
  const Json tokens = per_layer(layers, [&](const LayerStatistics& layer) {
    const std::int64_t count = layer.grid.height * layer.grid.width;
    const std::int64_t query = token.value_or(center_token(layer.grid));
    return query < count ? Json(query) : Json();
  });
  bool any = false;
  for (const Json& t : tokens) any = any || !t.is_null();
  if (!any) {
    throw ConfigError(
        cat("--token ", *token, ": no layer has so many tokens; tokens are counted from 0"));
  }
  json["center_token"] = one_grid ? tokens.front() : tokens;
  json["p_center_token"] = per_site(layers, [&](const SiteStatistics& site) {
    return per_head(site, token, [](const double* row, const TokenGrid& grid, std::int64_t) {
      return as_rows(row, grid);
    });
  });
  const auto figures = [&](auto&& pick) {
    return per_site(layers, [&](const SiteStatistics& site) {
      return per_head(site, token, [&](const double* row, const TokenGrid& grid, std::int64_t q) {
        return Json(pick(figures_of(row, grid, q)));
      });
    });
  };
  json["p_offset"] = figures([](const PositionFigures& f) {
    return std::vector<double>{f.offset_x, f.offset_y};
  });
  json["p_radius"] = figures([](const PositionFigures& f) { return f.radius; });
  json["p_tokens"] = figures([](const PositionFigures& f) { return f.tokens; });
}

}  // namespace dtn
