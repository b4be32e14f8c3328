// Maps over the tokens for every head: a block of heads for each layer, layers from left to right,
// runs below each other.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyze/analysis.h"
#include "plot/heat_map.h"
#include "report/figure_parts.h"

namespace dtn::drawing {

struct MapPlace {
  std::size_t run = 0, layer = 0, head = 0;  // run: position among the runs
};

struct HeadMaps {
  std::string name, title, data, caption, unit;                     // the unit names the colours
  std::vector<std::vector<std::vector<std::vector<double>>>> maps;  // [runs][L][heads][gh gw]
  plot::ColorScale scale = {};
  double cell = 3;  // pixels of a token on a 14 x 14 grid
  const Preview* image = nullptr;
  // What stands on a map, or nothing.
  std::function<void(plot::Canvas&, const plot::Box&, const MapPlace&)> marks = {};
  plot::Table table = {};
};

// [runs][L][heads][gh gw] of a key [L][2][H][gh][gw].
std::vector<std::vector<std::vector<std::vector<double>>>> head_map_values(
    const std::vector<AnalyzedRun>& runs, std::string_view key, std::size_t site);

// Nothing where no run has a number.
std::optional<plot::Figure> draw_head_maps(const std::vector<AnalyzedRun>& runs, HeadMaps what);

// A preview as a PNG file, in colour or grey.
std::string preview_png(const Preview& preview, bool grey = false);

}  // namespace dtn::drawing
