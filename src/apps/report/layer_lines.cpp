#include "apps/report/layer_lines.h"

#include <algorithm>
#include <cmath>

#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

constexpr double kLinesHeight = 180;
constexpr double kLinesRow = kLinesHeight + 66;
constexpr double kSpread = 30;  // largest high / low with a linear scale

bool has_line(const LinePanel& panel) {
  return std::any_of(panel.values.begin(), panel.values.end(), any_number);
}

std::size_t columns_of(std::size_t panels) { return panels <= 3 ? panels : panels == 4 ? 2 : 3; }

void take_in_lines(plot::Axis& axis, const LinePanel& panel) {
  for (const std::vector<double>& values : panel.values) axis.data.take_in(values);
}

void finish_axis(plot::Axis& axis, bool from_zero) {
  if (axis.data.low > 0 && axis.data.high > kSpread * axis.data.low && axis.limit.empty()) {
    axis.log = true;
  } else if (from_zero) {
    axis.data.take_in(0);
  }
}

plot::Table lines_table(const std::vector<AnalyzedRun>& runs, const LayerLines& what) {
  plot::Table table{{"layer"}, {}};
  std::size_t first = 1, last = 0;
  for (const LinePanel& panel : what.panels) {
    if (panel.from_zero_layer) first = 0;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      table.columns.push_back(cat(runs[r].name, ": ", panel.title));
      last = std::max(last, panel.values[r].size() - (panel.from_zero_layer ? 1 : 0) *
                                                         (panel.values[r].empty() ? 0 : 1));
    }
  }
  for (std::size_t layer = first; layer <= last; ++layer) {
    std::vector<std::string> row = {cat(layer)};
    for (const LinePanel& panel : what.panels) {
      const std::size_t begin = panel.from_zero_layer ? 0 : 1;
      for (const std::vector<double>& values : panel.values) {
        const bool there = layer >= begin && layer - begin < values.size();
        row.push_back(there ? plot::readable(values[layer - begin]) : "");
      }
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

void draw_panel(plot::Canvas& canvas, const plot::Box& area, const LinePanel& what,
                const std::vector<AnalyzedRun>& runs, const plot::Axis& y, bool labels) {
  std::size_t depth = 0;
  for (const std::vector<double>& values : what.values) depth = std::max(depth, values.size());
  if (what.from_zero_layer && depth > 0) --depth;
  plot::PanelLook look;
  look.title = what.title;
  look.y_labels = labels;
  plot::Panel panel(canvas, area, layer_axis(depth, what.from_zero_layer), y, look);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::size_t n = what.values[r].size();
    panel.line({runs[r].name,
                layer_places(n, what.from_zero_layer ? 0 : 1),
                what.values[r],
                {},
                {},
                runs[r].index});
  }
}

}  // namespace

std::optional<plot::Figure> draw_layer_lines(const std::vector<AnalyzedRun>& runs,
                                             LayerLines what) {
  std::erase_if(what.panels, [](const LinePanel& p) { return !has_line(p); });
  if (what.panels.empty()) return std::nullopt;
  std::vector<plot::Axis> axes(what.panels.size(), what.y);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    for (std::size_t k = 0; k < axes.size(); ++k) {
      if (what.shared || i == k) take_in_lines(axes[i], what.panels[k]);
    }
    finish_axis(axes[i], what.from_zero);
    axes[i].label = what.unit;
  }
  const std::size_t columns = columns_of(axes.size());
  const std::size_t rows = (axes.size() + columns - 1) / columns;
  const std::vector<plot::LegendEntry> legend = legend_of(runs);
  const double head = head_height(legend) + 22;
  plot::Canvas canvas(kFigureWidth, head + kLinesRow * static_cast<double>(rows));
  draw_head(canvas, what.title, what.data, legend);
  double left = 0;
  for (const plot::Axis& axis : axes) left = std::max(left, plot::left_margin(axis, kLinesHeight));
  const double between = what.shared ? 14 : left + 10;
  const double n = static_cast<double>(columns);
  const double width = (kFigureWidth - 8 - left - kFigureSide - (n - 1) * between) / n;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const double column = static_cast<double>(i % columns), row = static_cast<double>(i / columns);
    const plot::Box area = {8 + left + column * (width + between), head + row * kLinesRow, width,
                            kLinesHeight};
    draw_panel(canvas, area, what.panels[i], runs, axes[i], !what.shared || i % columns == 0);
  }
  std::string description = cat(what.title, " (", what.unit, ") over the layers, ", what.data);
  for (const LinePanel& panel : what.panels) {
    std::vector<plot::Range> ranges(runs.size());
    for (std::size_t r = 0; r < runs.size(); ++r) ranges[r].take_in(panel.values[r]);
    description += cat("; ", panel.title, ": ", spans_text(runs, ranges));
  }
  return make_figure(what.name, what.title, what.caption, description, canvas,
                     lines_table(runs, what));
}

}  // namespace dtn::drawing
