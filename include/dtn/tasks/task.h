// What is learnt: which fields a sample has, what the loss is, what an evaluation measures. The
// trainer, the learner, the evaluator and checkpoints know tasks by this interface alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtn/autograd/context.h"
#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"
#include "dtn/core/fields.h"
#include "dtn/core/metrics.h"
#include "dtn/core/registry.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"
#include "dtn/models/complexity.h"
#include "dtn/nn/parameters.h"

namespace dtn {

class Backbone;
struct Registries;
struct UpdateState;

// A part of the loss that is worth a line of its own in the log.
struct Term {
  std::string name;
  Tensor value;  // [1] float32, on the device
};

template <class T>
struct Named {
  std::string name;
  T value;
};

// The purpose of loaded weights: to train on from them, or to use them as they are.
enum class WeightsUse { kTraining, kEvaluation };

class Task {
 public:
  virtual ~Task() = default;

  // Where samples come from, which may outlive the task. The feeder delivers what the source says,
  // on the device.
  virtual std::shared_ptr<const SampleSource> source(Split, Device) const = 0;

  // The mean loss over the samples of a (micro-)batch, [1] float32. The context says how the model
  // runs; a task that runs it more than once gives each pass its own Context::of_pass. Terms come
  // in the same order each time, at most kMostTerms of them.
  // Every rank must record the same operations: gradients are summed as they become whole.
  virtual Variable loss(Context&, const Fields& batch, std::vector<Term>& logged) = 0;
  static constexpr std::size_t kMostTerms = 8;

  // What the meter wants to see of an evaluation batch, on the device.
  virtual Fields outputs(Context&, const Fields& batch) = 0;
  virtual std::unique_ptr<Meter> meter() const = 0;

  // Called once ahead of the first loss(), by who is going to train in that type: for what only
  // training needs, such as a teacher. Throws ConfigError or DataError where that is not to be had.
  virtual void prepare_training(DType compute) { static_cast<void>(compute); }
  // Parameters of models that are in memory in training beside the stores, once that is prepared.
  virtual std::int64_t other_parameters() const { return 0; }
  // The config as checkpoints keep it, once training is prepared: what the config finds by a path,
  // but a run depends on by its content, named by that.
  virtual ExperimentConfig portable(const ExperimentConfig& config) const { return config; }

  // Called at the end of every step, and captured with it on a CUDA device: what follows the
  // weights without a gradient, such as a teacher. Nothing must change where the update was left
  // out, see average_into() in dtn/optim/optimizer.h.
  virtual void after_update(const UpdateState*) {}

  // The first learns; all are saved, restored and shared between ranks.
  virtual std::vector<Named<ParameterStore*>> stores() = 0;
  // The model whose layers can be looked into (Backbone::layers()); null: none.
  virtual Backbone* backbone() { return nullptr; }
  // Called by a trainer with the training samples, ahead of load_weights() and of the validation
  // split: the classes that the outputs stand for are those of these samples.
  virtual void learn_classes(const SampleSource& training) { static_cast<void>(training); }
  // Loads the weights of a file into the first store; returns notes for people. Unless overridden,
  // every parameter must be in the file under its name, and nothing else. Throws DataError where
  // that is not so, and for evaluation where a part of the weights would stay random.
  virtual std::vector<std::string> load_weights(const std::string& file, WeightsUse use);
  // What is trained, in a line for people.
  virtual std::string description() const = 0;
  // What the loss is, in a line for people; empty: nothing to say.
  virtual std::string objective() const { return ""; }
  // What a sample costs, for tables and estimates. Unless overridden: the parameters of the first
  // store, and zeros for what is not known.
  virtual Complexity cost();
};

// What a task is made for. The registries outlive it. Where a run is only sized up, the device is
// kMeta, whose tensors have shapes and no values: ParameterStore::initialize() does nothing there,
// and what looks at a weight must not.
struct TaskSetup {
  const ExperimentConfig& config;
  Device device;
  const Registries& registries;
};

struct TaskRow {
  TaskSchema schema;
  std::function<std::unique_ptr<Task>(const TaskSetup&)> make;

  const std::string& name() const { return schema.name; }
};

using TaskRegistry = Registry<TaskRow>;

// Ours.
const TaskRegistry& task_registry();

// The task that the config names.
std::unique_ptr<Task> make_task(const TaskSetup& setup);

}  // namespace dtn
