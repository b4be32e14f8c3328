#include <algorithm>
#include <cmath>
#include <string_view>

#include "apps/report/analysis/analysis_json.h"
#include "apps/report/analysis/figure_parts.h"
#include "apps/report/analysis/figures.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn {
namespace drawing {
namespace {

// Topic that groups the figures whose names start with one of `prefixes`.
struct Topic {
  std::string title;
  std::vector<std::string_view> prefixes;
};

const std::vector<Topic>& topics() {
  static const std::vector<Topic> list = {
      {"Magnitude of tokens", {"token_magnitude"}},
      {"Attention", {"attention", "rollout"}},
      {"Share of a token that remains without the mean", {"variation_coefficient"}},
      {"Positions of DTN's statistics", {"p_"}},
      {"Mixing ratios of DTN", {"lambda"}},
      {"Tokens before and after the norms", {"pca", "token_cosine"}},
      {"Mean and deviation over the channels", {"moments"}},
      {"Signal and gradients", {"residual_rms", "gradient"}},
      {"Similarity of layers", {"cka"}},
      {"Illustrations", {"illustration"}},
  };
  return list;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += i == 0 ? "" : i + 1 == words.size() ? " and " : ", ";
    out += words[i];
  }
  return out;
}

std::string range_text(const std::vector<std::size_t>& counts) {
  if (counts.empty()) return "-";
  const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
  return *low == *high ? cat(*low) : cat(*low, " to ", *high);
}

std::string model_text(const AnalyzedRun& run) {
  std::string text = cat(run.name, " (");
  if (!run.normalizer.empty()) text += run.normalizer + ", ";
  text += cat(run.depth(), " layers");
  const std::string heads = range_text(run.heads);
  if (heads != "0" && heads != "-") text += cat(", ", heads, " heads");
  const double step = number_of(run.at("step"));
  if (std::isfinite(step)) text += cat(", step ", format("%.0f", step));
  return text + ")";
}

// Returns for instance ", drawn from 10 classes with seed 0"; empty if the images were not drawn.
std::string draw_text(const AnalysisJson& analysis) {
  const double seed = number_of(member(analysis, "inputs.draw.seed"));
  const double classes = number_of(member(analysis, "inputs.draw.classes"));
  if (!std::isfinite(seed)) return "";
  const std::string from = classes > 0 ? cat(" evenly from ", format("%.0f", classes),
                                             classes > 1 ? " classes" : " class")
                                       : std::string();
  return cat(", drawn", from, " with seed ", format("%.0f", seed));
}

std::string shown_text(const AnalysisJson& analysis, const std::vector<AnalyzedRun>& runs) {
  std::vector<std::string> losses;
  for (const AnalyzedRun& run : runs) {
    const double loss = number_of(run.at("loss"));
    if (std::isfinite(loss)) losses.push_back(cat(run.name, " ", plot::readable(loss)));
  }
  const std::string data = inputs_text(analysis) + draw_text(analysis);
  const AnalysisJson& labels = member(analysis, "inputs.labels");
  const bool has_classes = !labels.is_boolean() || labels.get<bool>();
  if (losses.empty()) return cat("Inputs: ", data, " without labels, so there is no loss.");
  return cat("Loss", has_classes ? " (mean cross entropy)" : "", " on ", data, ": ", joined(losses),
             ".");
}

std::vector<std::string> lead(const AnalysisJson& analysis, const std::vector<AnalyzedRun>& runs) {
  std::vector<std::string> models;
  for (const AnalyzedRun& run : runs) models.push_back(model_text(run));
  std::vector<std::string> lines = {cat(models.size() == 1 ? "Model: " : "Models: ",
                                        models.empty() ? "none" : joined(models), "."),
                                    shown_text(analysis, runs)};
  const std::vector<std::string> differences = largest_differences(runs, 3);
  lines.insert(lines.end(), differences.begin(), differences.end());
  if (differences.empty() && runs.size() > 1) lines.push_back("The models hardly differ.");
  return lines;
}

plot::Table overview(const std::vector<AnalyzedRun>& runs) {
  plot::Table table{{"name", "normalizer", "layers", "heads", "tokens", "step", "loss", "source"},
                    {}};
  for (const AnalyzedRun& run : runs) {
    std::vector<std::string> grids;
    for (const MapSize& g : run.grids) {
      const std::string grid = cat(g.rows, " \xC3\x97 ", g.columns);
      if (grids.empty() || grids.back() != grid) grids.push_back(grid);
    }
    const double step = number_of(run.at("step"));
    table.rows.push_back({run.name, run.normalizer, cat(run.depth()), range_text(run.heads),
                          joined(grids), std::isfinite(step) ? format("%.0f", step) : "-",
                          plot::readable(number_of(run.at("loss"))), text_of(run.at("source"))});
  }
  return table;
}

std::vector<plot::Section> sections(const std::vector<plot::Figure>& figures) {
  std::vector<plot::Section> out;
  std::vector<bool> placed(figures.size(), false);
  const auto collect = [&](const std::string& title, auto&& belongs) {
    plot::Section section{title, {}, {}};
    for (std::size_t i = 0; i < figures.size(); ++i) {
      if (placed[i] || !belongs(figures[i].name)) continue;
      placed[i] = true;
      section.figures.push_back(figures[i]);
    }
    if (!section.figures.empty()) out.push_back(std::move(section));
  };
  for (const Topic& topic : topics()) {
    collect(topic.title, [&topic](std::string_view name) {
      return std::any_of(topic.prefixes.begin(), topic.prefixes.end(),
                         [name](std::string_view p) { return name.starts_with(p); });
    });
  }
  collect("Others", [](std::string_view) { return true; });
  return out;
}

}  // namespace
}  // namespace drawing

std::vector<plot::Figure> draw_figures(const nlohmann::ordered_json& analysis,
                                       std::span<const Preview> previews) {
  using namespace drawing;
  const FigureInput in{analysis, read_runs(analysis), inputs_text(analysis), previews};
  Figures out;
  for (const auto add :
       {add_magnitude_maps, add_magnitude_dots, add_attention, add_rollout, add_variation,
        add_position_maps, add_offsets, add_position_extent, add_lambdas, add_lambda_history,
        add_planes, add_token_likeness, add_moment_maps, add_signals, add_cka}) {
    add(in, out);
  }
  return out;
}

std::string report_html(const nlohmann::ordered_json& analysis,
                        const std::vector<plot::Figure>& figures) {
  using namespace drawing;
  const std::vector<AnalyzedRun> runs = read_runs(analysis);
  std::vector<std::string> names;
  for (const AnalyzedRun& run : runs) names.push_back(run.name);
  plot::Page page;
  page.title = runs.empty() ? "Analysis of the model" : "Analysis of " + joined(names);
  page.lead = lead(analysis, runs);
  if (!runs.empty()) page.overview = overview(runs);
  page.sections = sections(figures);
  page.footer =
      "Standard deviations are population standard deviations. Statistics of tokens exclude the "
      "class token. analysis.json contains all numbers, also those of the maps.";
  return plot::html(page);
}

}  // namespace dtn
