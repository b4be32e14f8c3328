// Maps over the tokens for every head: a block of heads for each layer, with layers from left to
// right and runs from top to bottom.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/report/analysis/figure_parts.h"
#include "plot/heat_map.h"

namespace dtn::drawing {

struct MapPlace {
  std::size_t run = 0, layer = 0, head = 0;  // run: index among the runs
};

// Maps of all heads, [runs][L][heads][gh gw].
using LayerMaps = std::vector<std::vector<std::vector<std::vector<double>>>>;

struct HeadMaps {
  std::string name, title, data, caption, unit;  // `unit` labels the colours
  LayerMaps maps;
  plot::ColorScale scale = {};
  double cell = 3;  // pixels per token on a 14 x 14 grid
  const Preview* image = nullptr;
  bool pairs = false;  // shows a run beside its state before training
  // Draws marks on a map; may be empty.
  std::function<void(plot::Canvas&, const plot::Box&, const MapPlace&)> marks = {};
  plot::Table table = {};
};

// Returns the maps of a key [L][2][H][gh][gw].
LayerMaps head_map_values(const std::vector<AnalyzedRun>& runs, std::string_view key,
                          std::size_t site);

// Draws nothing if no run has a number.
void add_head_maps(const FigureInput& in, HeadMaps what, Figures& out);

// True if the number of pixel values fits the size of the image.
bool drawable(const Preview& preview);

// Encodes a preview as PNG, in colour or grey.
std::string preview_png(const Preview& preview, bool grey = false);

}  // namespace dtn::drawing
