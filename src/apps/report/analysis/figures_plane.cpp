// Figures in a plane: offsets of P, and tokens by their principal components.
#include <algorithm>
#include <cmath>

#include "apps/report/analysis/figure_parts.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/heat_map.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

constexpr double kBeside = 68;  // space to the left of a panel
constexpr double kAround = 76;  // space above and below a panel

// Square panels in two columns, or in four columns for more than four panels: panels come in pairs.
struct PlaneGrid {
  explicit PlaneGrid(std::size_t panels)
      : columns(panels <= 4 ? 2 : 4), rows((panels + columns - 1) / columns) {}
  double pitch() const { return (kFigureWidth - 24) / static_cast<double>(columns); }
  double side() const { return pitch() - kBeside - 12; }
  double height() const { return static_cast<double>(rows) * (side() + kAround); }
  plot::Box area(std::size_t panel, double top) const {
    const std::size_t row = panel / columns, column = panel % columns;
    return {8 + kBeside + static_cast<double>(column) * pitch(),
            top + static_cast<double>(row) * (side() + kAround), side(), side()};
  }
  std::size_t columns, rows;
};

// Axis for both directions, with equal scale, so that a panel shows true angles.
plot::Axis plane_axis(const std::string& label, double reach) {
  plot::Axis axis;
  axis.label = label;
  axis.data = {-1.06 * reach, 1.06 * reach};
  axis.round = false;
  return axis;
}

// Reads pairs of numbers; incomplete pairs are left out.
std::vector<plot::Point> pairs_of(const AnalysisJson& list) {
  std::vector<plot::Point> out;
  for (std::size_t i = 0; list.is_array() && i < list.size(); ++i) {
    const plot::Point p = {number_of(item(list[i], 0)), number_of(item(list[i], 1))};
    if (std::isfinite(p.x) && std::isfinite(p.y)) out.push_back(p);
  }
  return out;
}

double reach_of(const std::vector<plot::Point>& points) {
  double reach = 0;
  for (plot::Point p : points) reach = std::max({reach, std::abs(p.x), std::abs(p.y)});
  return reach;
}

struct OffsetPanel {
  std::size_t run, site;
  std::vector<std::vector<plot::Point>> layers;  // [L][heads]
};

std::vector<OffsetPanel> offset_panels(const FigureInput& in) {
  std::vector<OffsetPanel> panels;
  for (std::size_t r = 0; r < in.runs.size(); ++r) {
    for (std::size_t site = 0; site < kSites; ++site) {
      OffsetPanel panel{r, site, {}};
      bool any = false;
      for (std::size_t l = 0; l < in.runs[r].depth(); ++l) {
        panel.layers.push_back(pairs_of(item(item(in.runs[r].at("p_offset"), l), site)));
        any |= !panel.layers.back().empty();
      }
      if (any) panels.push_back(std::move(panel));
    }
  }
  return panels;
}

// Colour of a layer: the deeper, the lighter.
plot::Paint depth_paint(std::size_t layer, std::size_t depth) {
  const double share =
      depth < 2 ? 0.5 : static_cast<double>(layer) / static_cast<double>(depth - 1);
  const plot::Rgb color = plot::viridis(share);
  return {"depth", color, color};
}

void draw_offsets(plot::Canvas& canvas, const plot::Box& area, const OffsetPanel& what,
                  const AnalyzedRun& run, double reach) {
  plot::PanelLook look;
  look.title = panel_title(run.name, cat(": norm", what.site + 1), area.width);
  plot::Panel panel(canvas, area, plane_axis("columns to the right", reach),
                    plane_axis("rows upwards", reach), look);
  panel.rule(0, {plot::kSoft, 0.8, "2 2"});
  canvas.line({panel.x(0), area.y}, {panel.x(0), area.bottom()}, {plot::kSoft, 0.8, "2 2"});
  for (std::size_t l = 0; l < what.layers.size(); ++l) {
    for (plot::Point p : what.layers[l]) {
      canvas.marker({panel.x(p.x), panel.y(-p.y)}, plot::Marker::kCircle,
                    depth_paint(l, what.layers.size()), 7);
    }
  }
}

struct TokenPanel {
  std::size_t run;
  bool after;
  std::vector<plot::Point> points;
};

void draw_tokens(plot::Canvas& canvas, const plot::Box& area, const TokenPanel& what,
                 const AnalyzedRun& run) {
  constexpr std::size_t kMaxTokens = 2500;  // more dots could not be told apart
  const double reach = std::max(reach_of(what.points), 1e-12);
  const std::string site = what.after ? "after" : "before";
  const AnalysisJson& explained =
      item(item(item(run.at("pca.directions.explained"), 0), 0), what.after ? 1 : 0);
  const auto label = [&explained](std::size_t component) {
    const double share = number_of(item(explained, component));
    const std::string text = cat("component ", component + 1);
    return std::isfinite(share) ? cat(text, " (", plot::readable(100 * share, 3), " %)") : text;
  };
  plot::PanelLook look;
  look.title = panel_title(run.name, cat(", ", site, " norm1"), area.width);
  plot::Panel panel(canvas, area, plane_axis(label(0), reach), plane_axis(label(1), reach), look);
  std::vector<plot::Point> places;
  const std::size_t step = (what.points.size() + kMaxTokens - 1) / kMaxTokens;
  for (std::size_t i = 0; i < what.points.size(); i += step) {
    places.push_back({panel.x(what.points[i].x), panel.y(what.points[i].y)});
  }
  canvas.cloud(places, plot::series_paint(run.index), 3, 0.5);
}

}  // namespace

void add_offsets(const FigureInput& in, Figures& out) {
  const std::vector<OffsetPanel> panels = offset_panels(in);
  if (panels.empty()) return;
  double reach = 0.5;
  for (const OffsetPanel& p : panels) {
    for (const auto& layer : p.layers) reach = std::max(reach, reach_of(layer));
  }
  const std::string title = "Where heads take their statistics from";
  const PlaneGrid planes(panels.size());
  const double head = head_height({}) + 84;
  plot::Canvas canvas(kFigureWidth, head + planes.height());
  draw_head(canvas, title,
            "mean offset from the query, in patches; one dot per head, up is up in the image", {});
  std::size_t depth = 1;
  for (const OffsetPanel& p : panels) depth = std::max(depth, p.layers.size());
  plot::draw_color_bar(
      canvas, {kFigureSide, 78, 220, 10},
      {{1, static_cast<double>(std::max<std::size_t>(depth, 2))}, plot::ColorMap::kViridis, false},
      "layer", true);
  plot::Table table{{"run", "place", "layer", "head", "to the right", "down"}, {}};
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const plot::Box area = planes.area(i, head);
    const AnalyzedRun& run = in.runs[panels[i].run];
    draw_offsets(canvas, area, panels[i], run, reach);
    for (std::size_t l = 0; l < panels[i].layers.size(); ++l) {
      for (std::size_t h = 0; h < panels[i].layers[l].size(); ++h) {
        const plot::Point p = panels[i].layers[l][h];
        table.rows.push_back({run.name, cat("norm", panels[i].site + 1), cat(l + 1), cat(h + 1),
                              plot::readable(p.x, 3), plot::readable(p.y, 3)});
      }
    }
  }
  out.push_back(make_figure(
      "p_offset", title,
      "Mean offset of all tokens from the query, weighted by the query's row of P. Dark dots: "
      "first layers; light dots: last layers.",
      cat(title, ": ", counted(panels.size(), "planes"), " with a dot per head"), canvas, table));
}

void add_planes(const FigureInput& in, Figures& out) {
  std::vector<TokenPanel> panels;
  for (std::size_t r = 0; r < in.runs.size(); ++r) {
    for (const bool after : {false, true}) {
      TokenPanel panel{r, after,
                       pairs_of(in.runs[r].at(after ? "pca_points.after" : "pca_points.before"))};
      if (!panel.points.empty()) panels.push_back(std::move(panel));
    }
  }
  if (panels.empty()) return;
  const std::string title = "Directions of tokens by their first two principal components";
  const double head = head_height({}) + 26;
  const PlaneGrid planes(panels.size());
  plot::Canvas canvas(kFigureWidth, head + planes.height());
  draw_head(
      canvas, title,
      cat(in.data, "; layer 1, each token divided by its length; each panel has its own axes"), {});
  plot::Table table{{"run", "place", "dots", "largest distance"}, {}};
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const plot::Box area = planes.area(i, head);
    const AnalyzedRun& run = in.runs[panels[i].run];
    draw_tokens(canvas, area, panels[i], run);
    double farthest = 0;
    for (plot::Point p : panels[i].points) farthest = std::max(farthest, std::hypot(p.x, p.y));
    table.rows.push_back({run.name, panels[i].after ? "after norm1" : "before norm1",
                          cat(panels[i].points.size()), plot::readable(farthest)});
  }
  out.push_back(make_figure(
      "pca_points", title,
      "Each panel has its own axes: compare shares, spread and cosine, not positions. The axis "
      "labels give each component's share of the variance.",
      cat(title, ", ", in.data, ": ", panels.size(), " clouds of dots"), canvas, table));
}

}  // namespace dtn::drawing
