// JSON lists over layers and sites.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "apps/analyze/collector.h"

namespace dtn {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kSites = 2;  // per layer, including sites that it lacks

// Lists f of each layer, in order.
template <class F>
Json per_layer(const std::vector<LayerStatistics>& layers, F&& f) {
  Json list = Json::array();
  for (const LayerStatistics& layer : layers) list.push_back(f(layer));
  return list;
}

// Lists f of both sites of each layer: null for a site that the layer lacks, and null for the layer
// if all its sites are null.
template <class F>
Json per_site(const std::vector<LayerStatistics>& layers, F&& f) {
  return per_layer(layers, [&](const LayerStatistics& layer) {
    Json sites = Json::array();
    bool any = false;
    for (std::size_t s = 0; s < kSites; ++s) {
      const bool there = s < layer.sites.size() && layer.sites[s].norm();
      sites.push_back(there ? Json(f(layer.sites[s])) : Json());
      any = any || !sites.back().is_null();
    }
    return any ? sites : Json();
  });
}

// Arranges numbers in raster order as rows of the grid.
inline Json as_rows(const double* values, const TokenGrid& grid) {
  Json rows = Json::array();
  for (std::int64_t y = 0; y < grid.height; ++y) {
    rows.push_back(std::vector<double>(values + y * grid.width, values + (y + 1) * grid.width));
  }
  return rows;
}

}  // namespace dtn
