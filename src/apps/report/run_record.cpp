#include <algorithm>
#include <cmath>

#include "apps/analyze/history.h"
#include "apps/common/json_files.h"
#include "apps/report/run_figures.h"
#include "core/text.h"
#include "dtn/core/check.h"
#include "train/record/step_pictures.h"

namespace dtn {

using namespace drawing;

namespace {

namespace fs = std::filesystem;

// Takes name, task and outputs from the config. Without a name there, the folder gives it.
void read_config(RunRecord& record, const fs::path& folder) {
  record.config = text_of_file(folder / "config.yaml");
  record.values = config_values(record.config);
  record.name = value_of(record.values, "name");
  if (record.name.empty()) record.name = fs::absolute(folder).lexically_normal().filename();
  record.task = value_of(record.values, "task");
  record.outputs =
      parse_number<double>(value_of(record.values, "dino.out_dim")).value_or(record.outputs);
}

bool is_place(const std::string& key) {
  return key == "step" || key == "epoch" || key == "split" || key == "count";
}

void add_line(RunRecord& record, const AnalysisJson& line) {
  const double epoch = number_of(member(line, "epoch"));
  const std::string split = text_of(member(line, "split"));
  Curves& curves = split.empty() ? record.training : record.evaluations[split];
  for (const auto& [key, value] : line.items()) {
    if (is_place(key) || (value.is_null() && !curves.contains(key))) continue;
    curves[key].x.push_back(epoch);
    curves[key].y.push_back(number_of(value));
  }
  const double step = number_of(member(line, "step"));
  if (step >= static_cast<double>(record.step)) {
    record.step = static_cast<std::int64_t>(step);
    record.epoch = epoch;
  }
}

// Adds pictures at equal intervals over the run.
void add_pictures(RunRecord& record, const fs::path& folder) {
  const auto all = step_pictures(folder);
  const std::size_t shown = std::min(all.size(), kMaxPictures);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t at = shown == 1 ? 0 : i * (all.size() - 1) / (shown - 1);
    record.pictures.emplace_back(all[at].first, text_of_file(all[at].second));
  }
}

}  // namespace

RunRecord read_run_record(const fs::path& folder) {
  if (!fs::exists(folder / "metrics.jsonl")) {
    throw DataError(cat(folder.string(), ": not a run of dtn-train; it has no metrics.jsonl"));
  }
  RunRecord record;
  read_config(record, folder);
  each_json_line(folder / "metrics.jsonl",
                 [&](const AnalysisJson& line) { add_line(record, line); });
  record.gradients = AnalysisJson::array();
  each_json_line(folder / "gradients.jsonl",
                 [&](const AnalysisJson& line) { record.gradients.push_back(line); });
  each_json_line(folder / "warnings.jsonl", [&](const AnalysisJson& line) {
    const double step = number_of(member(line, "step"));
    if (std::isfinite(step)) {
      record.warnings.emplace_back(static_cast<std::int64_t>(step), text_of(member(line, "text")));
    }
  });
  record.lambdas = read_history(folder / "norms.jsonl");
  record.summary = json_of_file(folder / "summary.json");
  record.attempts = member(json_of_file(folder / "attempts.json"), "attempts");
  record.neighbors = json_of_file(folder / "neighbors.json");
  record.neighbors_png = text_of_file(folder / "neighbors.png");
  record.samples = text_of_file(folder / "samples.png");
  add_pictures(record, folder);
  return record;
}

std::optional<std::int64_t> RunRecord::diverged_at() const {
  const double steps = number_of(member(summary, "steps"));
  if (member(summary, "diverged") != true || std::isnan(steps)) return std::nullopt;
  return static_cast<std::int64_t>(steps);
}

std::vector<fs::path> run_folders(const fs::path& folder) {
  if (fs::exists(folder / "metrics.jsonl") || !fs::is_directory(folder)) return {folder};
  std::vector<fs::path> seeds;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool seed = entry.path().filename().string().starts_with("seed-");
    if (seed && fs::exists(entry.path() / "metrics.jsonl")) seeds.push_back(entry.path());
  }
  std::ranges::sort(seeds);
  return seeds.empty() ? std::vector<fs::path>{folder} : seeds;
}

}  // namespace dtn
