#include "apps/average/weights_judge.h"

#include "core/progress.h"
#include "data/feed/open_split.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/tasks/task.h"
#include "train/evaluator.h"

namespace dtn::app {

WeightsJudge::WeightsJudge(const ExperimentConfig& config, const std::filesystem::path& file,
                           Device device, const Registries& registries, std::int64_t batch_size)
    : config_(config), device_(device), batch_size_(batch_size) {
  if (registries.tasks.at(config.task).schema.features_only) {
    throw ConfigError(cat("models of the task ", config.task,
                          " have features and no figures of their own; leave --greedy and "
                          "--evaluate out, and judge the average by dtn-eval --task knn"));
  }
  task_ = make_task({config_, device, registries});
  task_->load_weights(file.string(), WeightsUse::kEvaluation);
  source_ = validation_source(*task_, device);
  log_info(cat("val: ", source_->description()));
}

Metrics WeightsJudge::figures(const Tensor& weights, const std::string& title) {
  ParameterStore& store = *task_->stores().front().value;
  store.values().copy_from(weights.to(device_));
  store.restart_buffers();
  const auto split =
      open_split(source_, config_, Split::kVal, {.device = device_, .batch_size = batch_size_});
  ProgressBar bar(title, split->loader().samples_per_epoch());
  EvalOptions options;
  options.on_batch = [&](const DeviceBatch&, const Fields&, std::int64_t done) {
    bar.update(done, "");
  };
  return evaluate(*task_, split->feeder(), options)->metrics;
}

}  // namespace dtn::app
