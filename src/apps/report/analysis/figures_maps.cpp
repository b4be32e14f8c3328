// Figures of maps over the tokens.
#include <algorithm>
#include <array>
#include <cmath>

#include "apps/report/analysis/head_maps.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

// Calls work(run, layer, head, map) for each map; `run` is an index.
template <class Work>
void each_map(const LayerMaps& maps, Work work) {
  for (std::size_t r = 0; r < maps.size(); ++r) {
    for (std::size_t l = 0; l < maps[r].size(); ++l) {
      for (std::size_t h = 0; h < maps[r][l].size(); ++h) work(r, l, h, maps[r][l][h]);
    }
  }
}

std::vector<double> all_values(const LayerMaps& maps) {
  std::vector<double> out;
  each_map(maps, [&](auto, auto, auto, const auto& map) {
    out.insert(out.end(), map.begin(), map.end());
  });
  return out;
}

// Returns the token whose row of P is shown, or the number of tokens if it lies outside the grid.
std::size_t query_of(const AnalyzedRun& run, std::size_t layer) {
  const AnalysisJson& token = run.at("center_token");
  const double index = number_of(token.is_array() ? item(token, layer) : token);
  const MapSize grid = run.grids[layer];
  const std::size_t tokens = grid.rows * grid.columns;
  return index >= 0 && index < static_cast<double>(tokens) ? static_cast<std::size_t>(index)
                                                           : tokens;
}

// Box of one cell of a map.
plot::Box cell_box(const plot::Box& map, const MapSize& grid, std::size_t token) {
  const double w = map.width / static_cast<double>(grid.columns);
  const double h = map.height / static_cast<double>(grid.rows);
  const std::size_t row = token / grid.columns, column = token % grid.columns;
  return {map.x + w * static_cast<double>(column), map.y + h * static_cast<double>(row), w, h};
}

// Draws a frame around a cell, in white or black.
void outline(plot::Canvas& canvas, const plot::Box& box, bool white) {
  canvas.frame({box.x - 0.6, box.y - 0.6, box.width + 1.2, box.height + 1.2},
               {white ? plot::kWhite : plot::kBlack, 1.2});
}

// Returns the token with the largest weight, or all four tokens of a square of 2 x 2 that share it.
// Eq. 7 of the paper makes such ties if the square root of the number of heads is even: the centre
// of a head then falls between four tokens.
std::vector<std::size_t> peaks_of(const std::vector<double>& values, const MapSize& grid) {
  constexpr double kRounding = 1e-6;  // relative
  const auto peak = std::max_element(values.begin(), values.end(), [](double a, double b) {
    return std::isfinite(b) && (!std::isfinite(a) || a < b);
  });
  std::vector<std::size_t> equal;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= *peak * (1 - kRounding)) equal.push_back(i);
  }
  const std::size_t w = grid.columns, first = static_cast<std::size_t>(peak - values.begin());
  if (equal.empty() || equal[0] % w + 1 == w) return {first};
  const std::size_t i = equal[0];
  const std::vector<std::size_t> square = {i, i + 1, i + w, i + w + 1};
  return equal == square ? equal : std::vector<std::size_t>{first};
}

// Explains the maps in which four tokens share the largest weight; empty if there are none.
std::string tie_text(const std::vector<AnalyzedRun>& runs, const LayerMaps& maps) {
  std::int64_t ties = 0;
  double weight = 0;
  each_map(maps, [&](std::size_t r, std::size_t l, std::size_t, const auto& map) {
    if (!any_number(map)) return;
    const std::vector<std::size_t> peaks = peaks_of(map, runs[r].grids[l]);
    if (peaks.size() == 1) return;
    ++ties;
    weight = std::max(weight, map[peaks[0]]);
  });
  if (ties == 0) return "";
  return cat(" In ", counted(ties, "maps"), " four tokens share the largest weight (up to ",
             plot::readable(weight, 3),
             " each) and all have a black box: if the square root of the number of heads is even, "
             "the initialization of Eq. 7 puts the centre of a head between four tokens.");
}

void mark_position(plot::Canvas& canvas, const plot::Box& map, const AnalyzedRun& run,
                   std::size_t site, const MapPlace& place, const std::vector<double>& values) {
  const MapSize grid = run.grids[place.layer];
  const std::size_t query = query_of(run, place.layer);
  for (const std::size_t peak : peaks_of(values, grid)) {
    outline(canvas, cell_box(map, grid, peak), false);
  }
  if (query == values.size()) return;
  const plot::Box from = cell_box(map, grid, query);
  outline(canvas, from, true);
  const AnalysisJson& offsets = item(item(run.at("p_offset"), place.layer), site);
  const std::vector<double> offset = numbers_of(item(offsets, place.head));
  if (offset.size() != 2 || !any_number({offset[0] + offset[1]})) return;
  const plot::Point middle = {from.x + from.width / 2, from.y + from.height / 2};
  const plot::Point to = {std::clamp(middle.x + offset[0] * from.width, map.x, map.right()),
                          std::clamp(middle.y + offset[1] * from.height, map.y, map.bottom())};
  canvas.arrow(middle, to, {plot::kBlack, 2.2});
  canvas.arrow(middle, to, {plot::kWhite, 1});
}

plot::Table position_table(const std::vector<AnalyzedRun>& runs, std::size_t site,
                           const LayerMaps& maps) {
  plot::Table table{
      {"run", "layer", "head", "largest weight", "offset x", "offset y", "radius", "tokens"}, {}};
  each_map(maps, [&](std::size_t r, std::size_t l, std::size_t h, const auto& map) {
    if (!any_number(map)) return;
    plot::Range weights;
    weights.take_in(map);
    const AnalysisJson& offset = item(item(item(runs[r].at("p_offset"), l), site), h);
    const auto of_head = [&](const char* key) {
      return plot::readable(runs[r].of_heads(key, l, site)[h], 3);
    };
    table.rows.push_back({runs[r].name, cat(l + 1), cat(h + 1), plot::readable(weights.high),
                          plot::readable(number_of(item(offset, 0)), 3),
                          plot::readable(number_of(item(offset, 1)), 3), of_head("p_radius"),
                          of_head("p_tokens")});
  });
  return table;
}

plot::Table magnitude_table(const std::vector<AnalyzedRun>& runs, const LayerMaps& maps) {
  plot::Table table{{"run", "layer", "head", "min", "mean", "max"}, {}};
  each_map(maps, [&](std::size_t r, std::size_t l, std::size_t h, const auto& map) {
    plot::Range range;
    double sum = 0, n = 0;
    for (double v : map) {
      if (!std::isfinite(v)) continue;
      range.take_in(v);
      sum += v;
      ++n;
    }
    if (n == 0) return;
    table.rows.push_back({runs[r].name, cat(l + 1), cat(h + 1), plot::readable(range.low),
                          plot::readable(sum / n), plot::readable(range.high)});
  });
  return table;
}

}  // namespace

void add_magnitude_maps(const FigureInput& in, Figures& out) {
  for (std::size_t site = 0; site < kSites; ++site) {
    LayerMaps maps = head_map_values(in.runs, "token_magnitude.map", site);
    const std::vector<double> values = all_values(maps);
    plot::Range most;
    most.take_in(values);
    const plot::ColorScale scale{most_of(values), plot::ColorMap::kViridis, false};
    HeadMaps what{cat("token_magnitude_norm", site + 1),
                  cat("Magnitude of the tokens of one image after ", site_name(site)),
                  "first image; one map per head, one square per token, all on one scale",
                  cat("Euclidean length of each token over the channels of a head, after weight "
                      "and bias. A uniform map means that the norm makes all tokens equally long. "
                      "The colour scale ends at ",
                      plot::readable(scale.range.high, 3), "; the largest length is ",
                      plot::readable(most.high, 3), "."),
                  "length of a token",
                  std::move(maps),
                  scale,
                  3};
    what.table = magnitude_table(in.runs, what.maps);
    if (!in.previews.empty() && drawable(in.previews[0])) what.image = &in.previews[0];
    add_head_maps(in, std::move(what), out);
  }
}

void add_position_maps(const FigureInput& in, Figures& out) {
  for (std::size_t site = 0; site < kSites; ++site) {
    const LayerMaps maps = head_map_values(in.runs, "p_center_token", site);
    plot::Range weights;
    weights.take_in(0);
    weights.take_in(all_values(maps));
    HeadMaps what{
        cat("p_norm", site + 1),
        cat("Where the statistics of one token come from: P at ", site_name(site)),
        "one map per head: weights of all tokens for the query in the white box",
        cat("White box: the query; black box: the largest weight; arrow: the mean offset. "
            "Colours grow with the square root of the weight, on one scale up to ",
            plot::readable(weights.high, 3), ".", tie_text(in.runs, maps)),
        "weight (square-root scale)",
        maps,
        {weights, plot::ColorMap::kViridis, true},
        5.5};
    what.pairs = true;
    what.table = position_table(in.runs, site, maps);
    what.marks = [&](plot::Canvas& canvas, const plot::Box& map, const MapPlace& place) {
      mark_position(canvas, map, in.runs[place.run], site, place,
                    maps[place.run][place.layer][place.head]);
    };
    add_head_maps(in, std::move(what), out);
  }
}

namespace {

struct RolloutRow {
  const AnalyzedRun* run;
  std::vector<std::vector<double>> maps;  // by image; empty: no map
  MapSize grid;
};

std::vector<RolloutRow> rollout_rows(const FigureInput& in, std::size_t images) {
  std::vector<RolloutRow> rows;
  for (const AnalyzedRun& run : in.runs) {
    if (run.depth() == 0) continue;
    RolloutRow row{&run, {}, run.grids.back()};
    for (std::size_t i = 0; i < images; ++i) {
      std::vector<double> map = numbers_of(item(run.at("rollout"), i));
      const bool fits = map.size() == row.grid.rows * row.grid.columns && any_number(map);
      row.maps.push_back(fits ? std::move(map) : std::vector<double>());
    }
    if (std::any_of(row.maps.begin(), row.maps.end(), [](const auto& m) { return !m.empty(); })) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

plot::Table rollout_table(const std::vector<RolloutRow>& rows) {
  plot::Table table{{"run", "image", "largest share (%)", "at row", "at column"}, {}};
  for (const RolloutRow& row : rows) {
    for (std::size_t i = 0; i < row.maps.size(); ++i) {
      if (row.maps[i].empty()) continue;
      plot::Range range;
      range.take_in(row.maps[i]);
      const auto peak = std::find(row.maps[i].begin(), row.maps[i].end(), range.high);
      const std::size_t token = static_cast<std::size_t>(peak - row.maps[i].begin());
      table.rows.push_back({row.run->name, cat(i + 1), plot::readable(100 * range.high, 3),
                            cat(token / row.grid.columns + 1), cat(token % row.grid.columns + 1)});
    }
  }
  return table;
}

}  // namespace

void add_rollout(const FigureInput& in, Figures& out) {
  constexpr std::size_t kMaxImages = 8;
  constexpr double kLabel = 108, kGap = 8, kTop = 128;
  constexpr double kSide = (kFigureWidth - kLabel - kFigureSide - 7 * kGap) / 8;
  std::size_t images = 0;
  for (const AnalyzedRun& run : in.runs) {
    if (run.at("rollout").is_array()) images = std::max(images, run.at("rollout").size());
  }
  images = std::min(images, kMaxImages);
  std::vector<RolloutRow> rows = rollout_rows(in, images);
  if (rows.empty()) return;
  const plot::Table table = rollout_table(rows);
  std::vector<double> values;
  for (RolloutRow& row : rows) {
    for (auto& map : row.maps) {
      // In multiples of an equal share, so that grids of different sizes can use one scale.
      for (double& v : map) v *= static_cast<double>(map.size());
      values.insert(values.end(), map.begin(), map.end());
    }
  }
  const plot::ColorScale scale{most_of(values), plot::ColorMap::kViridis, false};
  const std::string title = "Attention rollout";
  const double top = kTop + (in.previews.empty() ? 0 : kSide + kGap);
  plot::Canvas canvas(kFigureWidth, top + (kSide + kGap) * static_cast<double>(rows.size()) + 8);
  draw_head(canvas, title, cat("the first ", images, " of ", in.data, ", all on one scale"), {});
  plot::draw_color_bar(canvas, {kFigureSide, 78, 260, 10}, scale, "multiple of an equal share");
  plot::HeatSheet sheet(scale.map);
  const auto tile = [](std::size_t i, double y) {
    return plot::Box{kLabel + static_cast<double>(i) * (kSide + kGap), y, kSide, kSide};
  };
  const auto shown = [&](std::size_t i) {
    return i < in.previews.size() && drawable(in.previews[i]);
  };
  for (std::size_t i = 0; i < images; ++i) {
    if (shown(i)) canvas.image(tile(i, kTop), preview_png(in.previews[i]));
  }
  double y = top;
  for (const RolloutRow& row : rows) {
    double baseline = y + 14;
    for (const std::string& line : plot::wrapped(row.run->name, plot::kText * plot::kBoldWidth,
                                                 kLabel - kFigureSide - 4, 4)) {
      canvas.text({kFigureSide, baseline}, line,
                  {plot::kText, plot::Anchor::kStart, plot::kInk, true});
      baseline += 14;
    }
    for (std::size_t i = 0; i < images; ++i) {
      if (row.maps[i].empty()) continue;
      if (shown(i)) canvas.image(tile(i, y), preview_png(in.previews[i], true));
      sheet.add(tile(i, y), row.maps[i], static_cast<std::int64_t>(row.grid.rows),
                static_cast<std::int64_t>(row.grid.columns), scale);
    }
    y += kSide + kGap;
  }
  sheet.draw(canvas, in.previews.empty() ? 1 : 0.7);
  out.push_back(make_figure(
      "rollout", title,
      "Contribution of each patch to the output: attention is multiplied through all layers, and "
      "half of each layer is the residual connection. The colours lie over the image in grey.",
      cat(title, " of ", images, " images for ", rows.size(), " runs"), canvas, table));
}

}  // namespace dtn::drawing
