#include "train/snapshot.h"

#include <charconv>

#include "dtn/config/load.h"
#include "dtn/core/log.h"
#include "dtn/models/weights.h"
#include "train/config_schemas.h"

namespace dtn {
namespace {

std::string exact(double value) {
  char text[64];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

template <class T>
T parse(const StringMap& metadata, const std::string& key) {
  auto found = metadata.find(key);
  if (found == metadata.end()) throw DataError(cat("checkpoint: state lacks '", key, "'"));
  const std::string& text = found->second;
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw DataError(cat("checkpoint: state has ", key, " = '", text, "'"));
  }
  return value;
}

// On the learner's own device, or copies on the host.
NamedTensors optimizer_views(Learner& learner, Device where) {
  NamedTensors views;
  for (const auto& [name, flat] : learner.optimizer().state()) {
    for (auto& view : named_views(learner.model().parameters(), flat.to(where), name + ".")) {
      views.push_back(std::move(view));
    }
  }
  return views;
}

// Copies tensors into views of the same names; both sides must agree exactly.
void copy_all(const NamedTensors& from, NamedTensors to, const std::string& what) {
  std::map<std::string, const Tensor*> by_name;
  for (const auto& [name, tensor] : from) by_name[name] = &tensor;
  if (by_name.size() != to.size()) {
    throw ConfigError(cat("checkpoint: ", what, " holds ", by_name.size(),
                          " tensors, this run has ", to.size(),
                          "; it was written by another configuration"));
  }
  for (auto& [name, view] : to) {
    auto found = by_name.find(name);
    if (found == by_name.end() || !(found->second->shape() == view.shape()) ||
        found->second->dtype() != view.dtype()) {
      throw ConfigError(cat("checkpoint: ", what, ": tensor ", name, " ", to_string(view.shape()),
                            " is missing or of another shape; it was written by another "
                            "configuration"));
    }
    view.copy_from(*found->second);
  }
}

// The number of workers changes nothing in a run, so checkpoints do not depend on it either.
ExperimentConfig without_workers(ExperimentConfig config) {
  config.data.workers.reset();
  return config;
}

void compare_configs(const ExperimentConfig& then, const ExperimentConfig& now) {
  if (!(then.model == now.model)) {
    throw ConfigError(
        "--resume: the model section of the config differs from the checkpoint's; start a new run "
        "(model.init_weights takes weights over) or restore the section");
  }
  auto warn = [](bool same, const char* section) {
    if (!same) {
      log_warn(cat("resume: the ", section,
                   " section differs from the checkpoint's; the run will not be the one it was"));
    }
  };
  warn(then.seed == now.seed, "seed");
  warn(then.data == now.data, "data");
  warn(then.augment == now.augment, "augment");
  warn(then.optim == now.optim, "optim");
  warn(then.schedule == now.schedule, "schedule");
  warn(then.train == now.train, "train");
}

}  // namespace

CheckpointData take_snapshot(const ExperimentConfig& config, Learner& learner,
                             const RunProgress& progress) {
  ParameterStore& store = learner.model().parameters();
  CheckpointData data;
  data.model = named_values(store);
  if (learner.average()) data.ema = named_weights(store, learner.average()->values().to(kCpu));
  data.state = optimizer_views(learner, kCpu);
  data.step = progress.step;
  data.config_yaml = to_yaml(without_workers(config));
  data.state_metadata = {
      {"epoch", std::to_string(progress.step / progress.steps_per_epoch)},
      {"position", std::to_string(progress.step % progress.steps_per_epoch)},
      {"steps_per_epoch", std::to_string(progress.steps_per_epoch)},
      {"seed", std::to_string(config.seed)},
      {"updates", std::to_string(learner.updates())},
      {"evaluated_step", std::to_string(progress.evaluated_step)},
      {"best_step", std::to_string(progress.best_step)},
      {"best_top1", exact(progress.best_top1)},
      {"bad_steps", std::to_string(progress.bad_steps)},
  };
  return data;
}

RunProgress restore_snapshot(const CheckpointData& data, const ExperimentConfig& config,
                             Learner& learner) {
  compare_configs(parse_experiment(data.config_yaml, "checkpoint config", {}, config_schemas()),
                  without_workers(config));
  ParameterStore& store = learner.model().parameters();
  load_exact(store, data.model, "checkpoint");
  copy_all(data.state, optimizer_views(learner, learner.device()), "state.safetensors");
  if (MovingAverage* average = learner.average()) {
    copy_all(data.ema, named_weights(store, average->values()), "ema.safetensors");
  }
  learner.set_updates(parse<std::int64_t>(data.state_metadata, "updates"));
  RunProgress progress;
  progress.step = data.step;
  progress.evaluated_step = parse<std::int64_t>(data.state_metadata, "evaluated_step");
  progress.best_step = parse<std::int64_t>(data.state_metadata, "best_step");
  progress.best_top1 = parse<double>(data.state_metadata, "best_top1");
  progress.bad_steps = parse<int>(data.state_metadata, "bad_steps");
  progress.steps_per_epoch = parse<std::int64_t>(data.state_metadata, "steps_per_epoch");
  return progress;
}

}  // namespace dtn
