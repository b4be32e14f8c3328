#include "apps/sweep/feature_runs.h"

#include <cmath>
#include <utility>

#include "apps/common/json_files.h"
#include "apps/sweep/run_evaluation.h"
#include "config/codec.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "tasks/frozen/frozen_features.h"
#include "train/checkpoint.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

using FeatureJson = nlohmann::ordered_json;

const FeatureEvaluation& evaluation_of(const SweepConfig& sweep, const FeaturePoint& point) {
  return sweep.features.evaluations[point.evaluation].how;
}

// Returns the step of the checkpoint at a point of a finished run.
std::int64_t step_of_point(const SweepRun& run, const FeaturePoint& point) {
  if (!point.epoch) return run.step;
  return run.step / run.config.schedule.epochs.value() * *point.epoch;
}

// Returns what a result depends on, besides the config of the run.
FeatureJson inputs_json(const SweepConfig& sweep, const SweepRun& run, const FeaturePoint& point) {
  FeatureJson json = keys_json(evaluation_of(sweep, point));
  json["step"] = step_of_point(run, point);
  json["average"] = sweep.ema;
  return json;
}

std::vector<std::string> options_of(const FeatureEvaluation& how, const DataConfig& data) {
  std::vector<std::string> options = {"--task", how.task, "--json"};
  const auto add = [&](const char* option, const auto& value) {
    options.insert(options.end(), {option, config::write_value(value)});
  };
  if (how.is_knn()) {
    add("--k", how.k);
    add("--temperature", how.temperature);
  } else {
    if (how.avgpool) {
      options.emplace_back("--avgpool");
    } else {
      add("--blocks", how.block_count());
    }
    add("--epochs", how.epochs);
    add("--lr", how.lr);
    add("--batch", how.batch);
    if (!how.augment) options.emplace_back("--no-augment");
  }
  add_data_options(data, options);
  return options;
}

SweepStatus evaluate_point(const SweepConfig& sweep, const SweepOptions& options,
                           const SweepRun& run, const FeaturePoint& point) {
  const std::string title = point_title(sweep.features, point);
  const fs::path checkpoint = checkpoint_path(run.folder, step_of_point(run, point));
  if (!fs::exists(checkpoint)) {
    log_warn(cat(run.id, ": cannot evaluate ", title, ": there is no ", checkpoint.string(),
                 "; delete ", run.folder.string(), " to train this run again"));
    return SweepStatus::kFailed;
  }
  const fs::path file = feature_file(sweep, run, point);
  const fs::path log = fs::path(file).replace_extension(".log");
  fs::create_directories(file.parent_path());
  fs::remove(log);
  const auto result = [&]() -> std::optional<std::string> {
    const FeatureJson printed = last_json_line(log);
    const double top1 = number_at(printed, "top1");
    if (std::isnan(top1)) return std::nullopt;
    write_file_atomic(
        file, json_text({{"inputs", inputs_json(sweep, run, point)}, {"result", printed}}, 2));
    return cat(title, ": top-1 ", format("%.2f", top1), " %");
  };
  return evaluate_run(sweep, options, run,
                      {.title = title,
                       .checkpoint = checkpoint,
                       .log = log,
                       .options = options_of(evaluation_of(sweep, point), run.config.data),
                       .result = result});
}

bool is_left(const SweepConfig& sweep, const SweepRun& run, const FeaturePoint& point) {
  if (!run.selected) return false;
  if (run.state != RunState::kFinished) return true;
  return has_weights(run) && !feature_result(sweep, run, point);
}

}  // namespace

std::vector<FeaturePoint> feature_points(const SweepFeatures& features) {
  std::vector<FeaturePoint> points;
  for (std::size_t e = 0; e < features.evaluations.size(); ++e) {
    if (features.epochs.empty()) points.push_back({e, 0, std::nullopt});
    for (std::size_t i = 0; i < features.epochs.size(); ++i) {
      points.push_back({e, i, features.epochs[i]});
    }
  }
  return points;
}

std::string point_title(const SweepFeatures& features, const FeaturePoint& point) {
  const std::string& name = features.evaluations[point.evaluation].name;
  return point.epoch ? cat(name, ", epoch ", *point.epoch) : name;
}

nlohmann::ordered_json keys_json(const FeatureEvaluation& evaluation) {
  FeatureJson json = {{"task", evaluation.task}};
  if (evaluation.is_knn()) {
    json["k"] = evaluation.k;
    json["temperature"] = evaluation.temperature;
    return json;
  }
  json["blocks"] = evaluation.block_count();
  json["avgpool"] = evaluation.avgpool;
  json["epochs"] = evaluation.epochs;
  json["lr"] = evaluation.lr;
  json["batch"] = evaluation.batch;
  json["augment"] = evaluation.augment;
  return json;
}

fs::path feature_file(const SweepConfig& sweep, const SweepRun& run, const FeaturePoint& point) {
  return run.folder / "features" /
         cat(sweep.features.evaluations[point.evaluation].name, "-",
             point.epoch ? cat(*point.epoch) : "last", ".json");
}

std::optional<double> feature_result(const SweepConfig& sweep, const SweepRun& run,
                                     const FeaturePoint& point) {
  const FeatureJson json = json_of_file(feature_file(sweep, run, point));
  if (!json.is_object() || !json.contains("result")) return std::nullopt;
  if (json.value("inputs", FeatureJson()) != inputs_json(sweep, run, point)) return std::nullopt;
  const double top1 = number_at(json["result"], "top1");
  return std::isnan(top1) ? std::nullopt : std::optional(top1);
}

std::size_t features_left(const SweepConfig& sweep, const std::vector<SweepRun>& runs) {
  std::size_t left = 0;
  for (const FeaturePoint& point : feature_points(sweep.features)) {
    for (const SweepRun& run : runs) left += is_left(sweep, run, point);
  }
  return left;
}

void check_features(const SweepConfig& sweep, const Registries& registries) {
  for (const SweepVariant& variant : sweep.variants) {
    for (const SweepEvaluation& evaluation : sweep.features.evaluations) {
      try {
        FrozenFeatures(variant.config, kMeta, registries, choice_of(evaluation.how));
      } catch (const ConfigError& e) {
        throw ConfigError(cat("features: the evaluation '", evaluation.name, "' of variant '",
                              variant.name, "': ", e.what()));
      }
    }
  }
}

SweepStatus evaluate_features(const SweepConfig& sweep, const SweepOptions& options,
                              const std::vector<SweepRun>& runs) {
  SweepStatus status = SweepStatus::kFinished;
  for (const FeaturePoint& point : feature_points(sweep.features)) {
    for (const SweepRun& run : runs) {
      if (run.state != RunState::kFinished || !is_left(sweep, run, point)) continue;
      const SweepStatus one = evaluate_point(sweep, options, run, point);
      if (one == SweepStatus::kStopped) return one;
      if (one == SweepStatus::kFailed) status = one;
    }
  }
  return status;
}

}  // namespace dtn
