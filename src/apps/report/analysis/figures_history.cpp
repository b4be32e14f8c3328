// Mixing ratios over training: a small panel for each layer, with a line for each head.
#include <algorithm>
#include <cmath>

#include "apps/report/analysis/figure_parts.h"
#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

constexpr double kHistoryHeight = 96;
constexpr double kHistoryRow = kHistoryHeight + 26;
constexpr std::size_t kHistoryColumns = 6, kNarrowColumns = 2;

struct History {
  std::vector<double> time;  // [S]
  bool epochs = false;       // false: steps
};

History history_of(const AnalyzedRun& run) {
  History out{numbers_of(run.at("lambda_history.epochs")), true};
  if (!any_number(out.time)) out = {numbers_of(run.at("lambda_history.steps")), false};
  return out;
}

// Returns [H][S] for one layer and site.
std::vector<std::vector<double>> head_lines(const AnalyzedRun& run, std::string_view key,
                                            std::size_t layer, std::size_t site,
                                            std::size_t steps) {
  std::vector<std::vector<double>> lines(run.heads[layer]);
  const AnalysisJson& history = run.at(key);
  for (std::size_t s = 0; s < steps; ++s) {
    const AnalysisJson& heads = item(item(item(history, s), layer), site);
    for (std::size_t h = 0; h < lines.size(); ++h) lines[h].push_back(number_of(item(heads, h)));
  }
  return lines;
}

plot::Axis time_axis(const History& history) {
  plot::Axis axis;
  axis.label = history.epochs ? "epoch" : "step";
  axis.data.take_in(history.time);
  axis.round = false;
  return axis;
}

plot::Axis ratio_axis(const std::string& label) {
  plot::Axis axis;
  axis.label = label;
  axis.data = {0, 1};
  axis.limit = {0, 1};
  return axis;
}

// Returns the layers in which at least one norm has ratios.
std::vector<std::size_t> layers_with(const AnalyzedRun& run, const std::string& key,
                                     const History& history) {
  std::vector<std::size_t> layers;
  for (std::size_t l = 0; l < run.depth(); ++l) {
    bool any = false;
    for (std::size_t site = 0; site < kSites; ++site) {
      const auto lines = head_lines(run, key, l, site, history.time.size());
      any = any || std::ranges::any_of(lines, any_number);
    }
    if (any) layers.push_back(l);
  }
  return layers;
}

std::vector<plot::LegendEntry> legend_of_heads(const AnalyzedRun& run) {
  std::vector<plot::LegendEntry> legend;
  const std::size_t most_heads = *std::max_element(run.heads.begin(), run.heads.end());
  for (std::size_t h = 0; h < most_heads; ++h) {
    legend.push_back({cat("head ", h + 1), plot::Sample::kLine, h, {}});
  }
  return legend;
}

// Draws a panel for each layer; norm1 above, norm2 below.
plot::Canvas draw_panels(const AnalyzedRun& run, const std::string& key, const History& history,
                         const std::vector<std::size_t>& layers, const std::string& title,
                         double picture_width) {
  const bool narrow = picture_width < kFigureWidth;
  const plot::Axis y = ratio_axis("\xCE\xBB");
  const std::size_t in_line = std::min(narrow ? kNarrowColumns : kHistoryColumns, layers.size());
  const std::size_t lines_per_site = (layers.size() + in_line - 1) / in_line;
  const std::vector<plot::LegendEntry> legend = legend_of_heads(run);
  const double head = head_height(legend, picture_width) + 20;
  const double left = plot::left_margin(y, kHistoryHeight) + 8;
  const double gap = 18;
  const double columns = static_cast<double>(in_line);
  const double width =
      std::min((picture_width - left - kFigureSide - (columns - 1) * gap) / columns, 220.0);
  plot::Canvas canvas(picture_width,
                      head + 2 * (kHistoryRow * static_cast<double>(lines_per_site)) + 24);
  draw_head(canvas, title, "one line per head; dotted: 0.5, equal weights", legend, picture_width);
  for (std::size_t site = 0; site < kSites; ++site) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::vector<std::vector<double>> lines =
          head_lines(run, key, layers[i], site, history.time.size());
      if (!std::ranges::any_of(lines, any_number)) continue;
      const std::size_t row = site * lines_per_site + i / in_line, column = i % in_line;
      const plot::Box area = {left + static_cast<double>(column) * (width + gap),
                              head + static_cast<double>(row) * kHistoryRow, width, kHistoryHeight};
      plot::PanelLook look;
      look.y_labels = column == 0;
      look.x_labels = row + 1 == 2 * lines_per_site;
      look.title = cat("norm", site + 1, ", layer ", layers[i] + 1);
      plot::Panel panel(canvas, area, time_axis(history), y, look);
      panel.rule(0.5, {plot::kInk, 1, "1.5 3"});
      for (std::size_t h = 0; h < lines.size(); ++h) {
        panel.line({"", history.time, lines[h], {}, {}, h}, false);
      }
    }
  }
  return canvas;
}

plot::Table table_of_ends(const AnalyzedRun& run, const std::string& key, const History& history,
                          const std::vector<std::size_t>& layers) {
  plot::Table table{{"place", "layer", "head", "first", "last"}, {}};
  for (std::size_t site = 0; site < kSites; ++site) {
    for (const std::size_t l : layers) {
      const auto lines = head_lines(run, key, l, site, history.time.size());
      if (!std::ranges::any_of(lines, any_number)) continue;
      for (std::size_t h = 0; h < lines.size(); ++h) {
        table.rows.push_back({cat("norm", site + 1), cat(l + 1), cat(h + 1),
                              plot::readable(lines[h].front(), 3),
                              plot::readable(lines[h].back(), 3)});
      }
    }
  }
  return table;
}

// Draws one of the two ratios of a run.
std::optional<plot::Figure> draw_history(const FigureInput& in, const AnalyzedRun& run, bool mean) {
  const History history = history_of(run);
  const std::string key = mean ? "lambda_history.lambda_mean" : "lambda_history.lambda_var";
  const std::string what = mean ? "mean" : "variance";
  const std::string title =
      cat("Mixing ratio \xCE\xBB of the ", what, " over training: ", run.name);
  const std::vector<std::size_t> layers = layers_with(run, key, history);
  if (layers.empty()) return std::nullopt;
  const std::string description =
      cat(title, ", ", in.data, ": one small chart per norm, one line per head");
  plot::Figure figure =
      make_figure(cat(mean ? "lambda_mean_history_" : "lambda_var_history_", run.index + 1), title,
                  cat("1: the token's own ", what, ", as in LayerNorm; 0: the ", what,
                      " of the surrounding tokens."),
                  description, draw_panels(run, key, history, layers, title, kFigureWidth),
                  table_of_ends(run, key, history, layers));
  figure.phone_svg = draw_panels(run, key, history, layers,
                                 cat("\xCE\xBB of the ", what, " over training"), plot::kPhoneWidth)
                         .svg(description);
  return figure;
}

}  // namespace

void add_lambda_history(const FigureInput& in, Figures& out) {
  for (const AnalyzedRun& run : in.runs) {
    if (run.depth() == 0 || history_of(run).time.size() < 2) continue;
    for (const bool mean : {true, false}) {
      if (auto figure = draw_history(in, run, mean)) out.push_back(std::move(*figure));
    }
  }
}

}  // namespace dtn::drawing
