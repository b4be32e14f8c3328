#include "train/snapshot.h"

#include <algorithm>

#include "dtn/config/load.h"
#include "dtn/core/log.h"
#include "dtn/models/weights.h"
#include "train/rank_consistency.h"

namespace dtn {
namespace {

// Return the moments of the optimizer, and the stores of the task other than the one that learns.
NamedTensors optimizer_state(Learner& learner) {
  NamedTensors all;
  for (const auto& [name, flat] : learner.optimizer().state()) {
    for (auto& view : named_views(learner.parameters(), flat, name + ".")) {
      all.push_back(std::move(view));
    }
  }
  return all;
}
NamedTensors other_stores(Learner& learner) {
  NamedTensors all;
  for (const auto& [name, store] : learner.task().stores()) {
    if (store == &learner.parameters() || store == learner.task().averaged()) continue;
    for (auto& [tensor_name, tensor] : named_weights(*store, store->values())) {
      all.emplace_back(name.empty() ? tensor_name : cat(name, "/", tensor_name), std::move(tensor));
    }
  }
  return all;
}

void restart_stores(Learner& learner) {
  for (const auto& [name, store] : learner.task().stores()) {
    store->restart_buffers();
    store->refresh_bfloat16();
  }
}

// The numbers of updates that a learner has made.
struct UpdateCounts {
  std::int64_t all = 0;
  std::optional<std::int64_t> late{};  // of late parameters; unset: there are none
};

UpdateCounts counts_of(const Learner& learner) {
  UpdateCounts counts{learner.updates()};
  if (learner.has_late_parameters()) counts.late = learner.late_updates();
  return counts;
}

void set_counts(Learner& learner, const UpdateCounts& counts) {
  learner.set_updates(counts.all);
  if (counts.late) learner.set_late_updates(*counts.late);
}

void bind_numbers(StateDict& state, const Task& task, RunProgress& p, UpdateCounts& counts) {
  state.bind("steps_per_epoch", p.steps_per_epoch);
  state.bind("updates", counts.all);
  if (counts.late) state.bind("late_updates", *counts.late);
  state.bind("evaluated_step", p.evaluated_step);
  state.bind("best_step", p.best_step);
  state.bind("best", p.best, "best_top1");
  state.bind("bad_steps", p.bad_steps);
  state.bind_new("stale_evaluations", p.stale_evaluations);
  state.bind_new("stop_best", p.stop_best);
  if (!task.finds_threshold()) return;
  state.bind("threshold", p.threshold);
  state.bind("ema_threshold", p.ema_threshold);
}

StateDict state_of(Learner& learner, RunProgress& progress, UpdateCounts& counts) {
  StateDict state;
  state.bind(optimizer_state(learner));
  state.bind(other_stores(learner));
  bind_numbers(state, learner.task(), progress, counts);
  return state;
}

// Returns the config for a checkpoint, without the number of workers, which does not change a run.
ExperimentConfig as_kept(const Task& task, const ExperimentConfig& config) {
  ExperimentConfig kept = task.checkpoint_config(config);
  kept.data.workers.reset();
  return kept;
}

// Returns the differences whose keys are in a section, or are the section itself:
//    optim.lr is 1.0e-03, was 5.0e-04
std::string changes_in(const std::string& section, const std::vector<std::string>& differences) {
  std::string text;
  for (const std::string& difference : differences) {
    if (difference.starts_with(section + ".") || difference.starts_with(section + " ")) {
      text += (text.empty() ? "" : "; ") + difference;
    }
  }
  return text;
}

void compare_configs(const ExperimentConfig& then, const ExperimentConfig& now) {
  if (then.task != now.task) {
    throw ConfigError(cat("--resume: the checkpoint is of the task ", then.task, ", this run of ",
                          now.task,
                          "; restore the task, or start a new run with "
                          "model.init_weights"));
  }
  const std::vector<std::string> differences = config_differences(then, now);
  if (!(then.model == now.model)) {
    throw ConfigError(cat("--resume: the model section differs from the checkpoint's: ",
                          changes_in("model", differences),
                          "; restore the section, or start a new run with model.init_weights"));
  }
  if (then.distill.teacher != now.distill.teacher) {
    const auto said = [](const std::optional<std::string>& teacher) {
      return teacher.value_or("none");
    };
    throw ConfigError(
        cat("--resume: distill.teacher has other weights than at the start of the run (",
            said(then.distill.teacher), " then, ", said(now.distill.teacher),
            " now); restore the teacher, or start a new run"));
  }
  bool changed = false;
  for (const char* section : {"seed", "data", "augment", "optim", "schedule", "train", "distill",
                              "dino", "supcon", "diffusion", "translate"}) {
    const std::string changes = changes_in(section, differences);
    if (changes.empty()) continue;
    log_warn(cat("resume: the ", section, " section differs from the checkpoint's: ", changes));
    changed = true;
  }
  if (changed) log_warn("resume: with these changes, the run will differ from the original one");
}

}  // namespace

void RunProgress::forget_bad_steps() {
  step -= bad_steps;
  evaluated_step = std::min(evaluated_step, step);
  finite_step = std::min(finite_step, step);
  bad_steps = 0;
}

CheckpointData take_snapshot(const ExperimentConfig& config, Learner& learner,
                             RunProgress& progress) {
  ParameterStore& store = learner.parameters();
  UpdateCounts counts = counts_of(learner);
  const StateDict state = state_of(learner, progress, counts);
  CheckpointData data;
  data.model = named_values(store);
  if (learner.average()) data.ema = named_weights(store, learner.average()->values().to(kCpu));
  if (ParameterStore* averaged = learner.task().averaged()) data.ema = named_values(*averaged);
  data.state = state.tensors();
  if (progress.threshold > 0) data.threshold = progress.threshold;
  if (progress.ema_threshold > 0) data.ema_threshold = progress.ema_threshold;
  data.step = progress.step;
  data.config_yaml = to_yaml(as_kept(learner.task(), config));
  data.state_metadata = state.numbers();
  data.state_metadata["epoch"] = std::to_string(progress.step / progress.steps_per_epoch);
  data.state_metadata["position"] = std::to_string(progress.step % progress.steps_per_epoch);
  data.state_metadata["seed"] = std::to_string(config.seed);
  if (progress.finite_step == progress.step) data.state_metadata[kConfirmedKey] = "1";
  return data;
}

void restore_snapshot(const CheckpointData& data, const ExperimentConfig& config,
                      const ConfigSchemas& schemas, Learner& learner, RunProgress& progress) {
  compare_configs(
      parse_experiment(data.config_yaml, "checkpoint config", {}, schemas, ConfigOrigin::kStored),
      as_kept(learner.task(), config));
  load_exact(learner.parameters(), data.model, "checkpoint");
  UpdateCounts counts = counts_of(learner);
  state_of(learner, progress, counts).load(data.state, data.state_metadata, "state.safetensors");
  if (MovingAverage* average = learner.average()) {
    StateDict ema;
    ema.bind(named_weights(learner.parameters(), average->values()));
    ema.load(data.ema, {}, "ema.safetensors");
  }
  if (ParameterStore* averaged = learner.task().averaged()) {
    load_exact(*averaged, data.ema, "ema.safetensors");
  }
  restart_stores(learner);
  set_counts(learner, counts);
  progress.step = data.step;
  if (data.state_metadata.contains(kConfirmedKey)) progress.finite_step = data.step;
}

void share_run(Learner& learner, RunProgress& progress, Communicator& ranks) {
  if (ranks.is_single()) return;
  UpdateCounts counts = counts_of(learner);
  std::int64_t resumed = progress.resumed_at.value_or(-1);
  StateDict all;
  for (const auto& [name, store] : learner.task().stores()) all.bind(name, store->values());
  if (learner.average()) all.bind("average", learner.average()->values());
  for (const auto& [name, moments] : learner.optimizer().state()) all.bind(name, moments);
  all.bind("step", progress.step);
  all.bind("resumed_at", resumed);
  bind_numbers(all, learner.task(), progress, counts);
  all.broadcast(ranks);
  set_counts(learner, counts);
  if (resumed >= 0) progress.resumed_at = resumed;
  restart_stores(learner);
  check_equal_weights(learner.parameters().values(), ranks);
}

}  // namespace dtn
