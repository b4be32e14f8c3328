#include "apps/report/analysis/analysis_json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn::drawing {
namespace {

// Limit for layers, heads, grid rows and runs; no analysis has more.
constexpr std::size_t kMaxLayers = 1000;
const AnalysisJson kNothing;

std::size_t count_of(const AnalysisJson& value) {
  const double n = number_of(value);
  return n >= 0 && n <= static_cast<double>(kMaxLayers) ? static_cast<std::size_t>(n) : 0;
}

MapSize map_size_of(const AnalysisJson& value) {
  return {count_of(item(value, 0)), count_of(item(value, 1))};
}

AnalyzedRun read_run(const AnalysisJson& json, std::size_t index) {
  AnalyzedRun run;
  run.index = index;
  run.json = &json;
  run.name = text_of(member(json, "name"));
  if (run.name.empty()) run.name = cat("model ", index + 1);
  run.normalizer = text_of(member(json, "normalizer"));
  const double trained = number_of(member(json, "before_training_of"));
  if (trained >= 0 && trained <= static_cast<double>(kMaxLayers)) {
    run.before_training_of = static_cast<std::size_t>(trained);
  }
  const AnalysisJson &heads = member(json, "heads"), &grid = member(json, "grid");
  const bool stages = heads.is_array();
  const std::size_t depth =
      stages ? std::min(heads.size(), kMaxLayers) : count_of(member(json, "depth"));
  for (std::size_t l = 0; l < depth; ++l) {
    run.heads.push_back(count_of(stages ? item(heads, l) : heads));
    run.grids.push_back(map_size_of(item(grid, 0).is_array() ? item(grid, l) : grid));
  }
  return run;
}

void append_numbers(const AnalysisJson& value, std::vector<double>& out) {
  if (!value.is_array()) return out.push_back(number_of(value));
  for (const AnalysisJson& v : value) append_numbers(v, out);
}

}  // namespace

const AnalysisJson& item(const AnalysisJson& list, std::size_t index) {
  return list.is_array() && index < list.size() ? list[index] : kNothing;
}

const AnalysisJson& member(const AnalysisJson& object, std::string_view dotted) {
  const AnalysisJson* at = &object;
  while (true) {
    const std::size_t dot = dotted.find('.');
    if (!at->is_object()) return kNothing;
    const auto found = at->find(std::string(dotted.substr(0, dot)));
    if (found == at->end()) return kNothing;
    at = &*found;
    if (dot == std::string_view::npos) return *at;
    dotted.remove_prefix(dot + 1);
  }
}

double number_of(const AnalysisJson& value) {
  const double number =
      value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  return std::isfinite(number) ? number : std::numeric_limits<double>::quiet_NaN();
}

std::string text_of(const AnalysisJson& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::vector<double> numbers_of(const AnalysisJson& list) {
  std::vector<double> out;
  if (list.is_array()) append_numbers(list, out);
  return out;
}

std::vector<double> AnalyzedRun::of_heads(std::string_view key, std::size_t layer,
                                          std::optional<std::size_t> site) const {
  const AnalysisJson& of_layer = item(at(key), layer);
  std::vector<double> values = numbers_of(site ? item(of_layer, *site) : of_layer);
  values.resize(heads[layer], std::numeric_limits<double>::quiet_NaN());
  return values;
}

std::vector<double> AnalyzedRun::magnitude_spread(std::size_t layer, std::size_t site) const {
  std::vector<double> spread = of_heads("token_magnitude.std", layer, site);
  const std::vector<double> mean = of_heads("token_magnitude.mean", layer, site);
  for (std::size_t h = 0; h < spread.size(); ++h) {
    spread[h] = mean[h] > 0 ? spread[h] / mean[h] : std::numeric_limits<double>::quiet_NaN();
  }
  return spread;
}

std::vector<AnalyzedRun> read_runs(const AnalysisJson& analysis) {
  std::vector<AnalyzedRun> runs;
  const AnalysisJson& checkpoints = member(analysis, "checkpoints");
  for (std::size_t i = 0; checkpoints.is_array() && i < checkpoints.size(); ++i) {
    runs.push_back(read_run(checkpoints[i], i));
  }
  return runs;
}

double median_of(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const std::size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

bool any_number(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

std::string inputs_text(const AnalysisJson& analysis) {
  const double count = number_of(member(analysis, "inputs.count"));
  const std::string source = text_of(member(analysis, "inputs.source"));
  std::string text =
      std::isfinite(count) ? counted(static_cast<std::int64_t>(count), "images") : "images";
  if (!source.empty()) text += " of " + source;
  return text;
}

std::string site_name(std::size_t site) {
  return site == 0 ? "norm1 (before attention)" : "norm2 (before the MLP)";
}

}  // namespace dtn::drawing
