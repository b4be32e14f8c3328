#include "train/record/run_summary.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/atomic_file.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSummaryFile = "summary.json";

// Figures of an evaluation of the weights, and of their moving average.
struct Figures {
  Json raw, ema;  // by name; null: none
  std::int64_t count = 0, step = 0;
};

Json figures_of(const Evaluation& evaluation) {
  Json figures;
  for (const auto& [name, value] : evaluation.metrics.values) figures[name] = value;
  return figures;
}

// Returns the figures in a line of metrics.jsonl.
Json figures_of(Json line) {
  for (const char* place : {"step", "epoch", "split", "count"}) line.erase(place);
  return line;
}

// Returns true if the figures have a finite loss or no loss. A loss that is not finite is null.
bool has_finite_loss(const Json& figures) {
  return !figures.contains("loss") || figures["loss"].is_number();
}

// Returns the last evaluation in metrics.jsonl whose loss is finite.
Figures last_finite(const fs::path& metrics) {
  Figures found;
  std::ifstream file(metrics);
  for (std::string text; std::getline(file, text);) {
    const Json line = Json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("split")) continue;
    const Json figures = figures_of(line);
    if (!has_finite_loss(figures)) continue;
    const auto step = line.value("step", std::int64_t{0});
    if (line["split"] == "val") {
      found = {figures, {}, line.value("count", std::int64_t{0}), step};
    } else if (line["split"] == "val_ema" && !found.raw.is_null() && step == found.step) {
      found.ema = figures;
    }
  }
  return found;
}

// Returns the best checkpoint and its figure. The name of the figure comes from an evaluation of
// this process.
Json best_of(const RunResults& run) {
  const RunProgress& progress = run.progress;
  if (progress.best_step < 0) return nullptr;
  Json best = {{"step", progress.best_step}, {"weights", run.best == BestBy::kEma ? "ema" : "raw"}};
  const std::string& figure = run.last.weights.metrics.primary;
  if (!figure.empty()) best[figure] = progress.best;
  return best;
}

// Returns the keys that both kinds of summaries have.
Json summary_of(const RunResults& run, const Figures& figures) {
  Json summary = figures.raw.is_null() ? Json::object() : figures.raw;
  // Programs read the accuracy of any run. It is null for a task without one.
  if (!figures.raw.is_null() && !summary.contains("top1")) summary["top1"] = nullptr;
  summary["count"] = figures.count;
  summary["steps"] = run.progress.step;
  summary["wall_seconds"] = run.attempts.seconds();
  summary["images_per_second"] = run.attempts.training().samples_per_second();
  summary["attempts"] = run.attempts.count();
  summary["best"] = best_of(run);
  summary["ema"] = figures.ema;
  summary["version"] = run.attempts.current().version;
  summary["commit"] = run.attempts.current().commit;
  summary["device"] = run.attempts.current().device;
  return summary;
}

void write(const RunResults& run, const Json& summary) {
  write_file_atomic(run.folder / kSummaryFile, summary.dump(2) + "\n");
}

Json read(const fs::path& folder) {
  std::ifstream file(folder / kSummaryFile);
  return Json::parse(file, nullptr, false);
}

bool says_diverged(const Json& summary) {
  const auto found = summary.find("diverged");  // end() if `summary` is no object
  return found != summary.end() && *found == true;
}

// "checkpoints/step-00000123"
Json name_of_checkpoint(const RunResults& run, const std::optional<fs::path>& checkpoint) {
  if (!checkpoint) return nullptr;
  return checkpoint->lexically_relative(run.folder).string();
}

}  // namespace

void write_summary(const RunResults& run) {
  const std::optional<Evaluation>& average = run.last.average;
  write(run, summary_of(run, {.raw = figures_of(run.last.weights),
                              .ema = average ? figures_of(*average) : Json(),
                              .count = run.last.weights.count,
                              .step = run.progress.step}));
}

void write_diverged_summary(const RunResults& run, const Retreat& retreat) {
  const Figures figures = last_finite(run.folder / "metrics.jsonl");
  Json summary = summary_of(run, figures);
  summary["diverged"] = true;
  // The best checkpoint may be the one that was set aside.
  std::error_code none;
  const fs::path best = fs::read_symlink(run.folder / "checkpoints" / "best", none);
  const std::int64_t best_step = std::max<std::int64_t>(run.progress.best_step, 0);
  if (best != checkpoint_path(run.folder, best_step).filename()) summary["best"] = nullptr;
  summary["evaluated_step"] = figures.raw.is_null() ? Json() : Json(figures.step);
  summary["last_checkpoint"] = name_of_checkpoint(run, retreat.confirmed);
  summary["set_aside"] = name_of_checkpoint(run, retreat.set_aside);
  write(run, summary);
}

bool has_summary(const fs::path& folder, std::int64_t step) {
  const Json summary = read(folder);
  return summary.is_object() && summary.value("steps", std::int64_t{-1}) == step &&
         !says_diverged(summary);
}

void remove_diverged_summary(const fs::path& folder) {
  if (!says_diverged(read(folder))) return;
  std::error_code error;
  fs::remove(folder / kSummaryFile, error);
  if (error)
    throw Error(cat("cannot remove ", (folder / kSummaryFile).string(), ": ", error.message()));
}

}  // namespace dtn
