#include "apps/report/analysis/figure_parts.h"

#include <algorithm>
#include <cmath>

#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

constexpr double kLegendTop = 56;

double inside(double width) { return width - 2 * kFigureSide; }

}  // namespace

double head_height(const std::vector<plot::LegendEntry>& legend, double width) {
  return kLegendTop + plot::draw_legend(nullptr, {kFigureSide, 0}, inside(width), legend) + 6;
}

void draw_head(plot::Canvas& canvas, const std::string& title, const std::string& subtitle,
               const std::vector<plot::LegendEntry>& legend, double width) {
  canvas.text({kFigureSide, 26}, plot::fitted(title, plot::kTitleText, inside(width)),
              {plot::kTitleText, plot::Anchor::kStart, plot::kInk, true});
  canvas.text({kFigureSide, 44}, plot::fitted(subtitle, plot::kSmallText, inside(width)),
              {plot::kSmallText, plot::Anchor::kStart, plot::kSoft});
  plot::draw_legend(&canvas, {kFigureSide, kLegendTop}, inside(width), legend);
}

plot::LegendEntry legend_entry(const AnalyzedRun& run) {
  return {run.name, plot::Sample::kLineAndMarker, run.index, {}};
}

plot::Axis layer_axis(std::size_t depth, bool from_zero) {
  plot::Axis axis;
  axis.label = "layer";
  axis.data = {from_zero ? -0.5 : 0.5, static_cast<double>(depth) + 0.5};
  axis.round = false;
  axis.whole = true;
  return axis;
}

void mark_stages(plot::Canvas& canvas, const plot::Panel& panel, const AnalyzedRun& run) {
  for (std::size_t l = 1; l < run.depth(); ++l) {
    if (run.grids[l] == run.grids[l - 1]) continue;
    const double x = panel.x(static_cast<double>(l) + 0.5);
    canvas.line({x, panel.area().y}, {x, panel.area().bottom()}, {plot::kSoft, 0.8, "2 2"});
  }
}

plot::Figure make_figure(const std::string& name, const std::string& title,
                         const std::string& caption, const std::string& description,
                         const plot::Canvas& canvas, plot::Table table) {
  return {name, title, caption, description, canvas.svg(description), std::move(table)};
}

std::string spans_text(const std::vector<AnalyzedRun>& runs,
                       const std::vector<plot::Range>& ranges) {
  std::string out;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (ranges[r].empty()) continue;
    out += cat(out.empty() ? "" : ", ", runs[r].name, " ", plot::readable(ranges[r].low, 3), " to ",
               plot::readable(ranges[r].high, 3));
  }
  return out;
}

std::string panel_title(const std::string& name, const std::string& more, double width) {
  const double size = plot::kText * plot::kBoldWidth;
  return plot::fitted(name, size, width - plot::text_width(more, size)) + more;
}

std::vector<double> layer_places(std::size_t depth, double first) {
  std::vector<double> places(depth);
  for (std::size_t l = 0; l < depth; ++l) places[l] = first + static_cast<double>(l);
  return places;
}

plot::Range most_of(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  plot::Range range;
  if (values.empty()) return range;
  std::sort(values.begin(), values.end());
  const std::size_t last = values.size() - 1;
  range.take_in(std::min(0.0, values.front()));
  range.take_in(values[last - values.size() / 200]);
  return range;
}

}  // namespace dtn::drawing
