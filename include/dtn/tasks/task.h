// The interface of a training task: the fields of a sample, the loss, and the results of an
// evaluation. Trainer, learner, evaluator and checkpoints use tasks only through this interface.
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

// A part of the loss that is logged separately.
struct Term {
  std::string name;
  Tensor value;  // [1] float32, on the device
};

// A value with its name.
template <class T>
struct Named {
  std::string name;
  T value;
};

// The purpose of loaded weights: to continue training from them, or to use them unchanged.
enum class WeightsUse { kTraining, kEvaluation };

// A training task with its models.
class Task {
 public:
  virtual ~Task() = default;

  // The source of the samples, which may outlive the task. The feeder delivers the source's fields
  // on the device.
  virtual std::shared_ptr<const SampleSource> source(Split, Device) const = 0;

  // The mean loss over the samples of a (micro-)batch, [1] float32. The context gives the mode of
  // the model. A task that runs the model more than once gives each pass another Context::of_pass.
  // Terms have the same order in each call; there are at most kMaxTerms. Every rank must record
  // the same operations: each gradient is summed over the ranks as soon as it is complete.
  virtual Variable loss(Context&, const Fields& batch, std::vector<Term>& logged) = 0;
  static constexpr std::size_t kMaxTerms = 8;

  // Input of the meter for an evaluation batch, on the device.
  virtual Fields outputs(Context&, const Fields& batch) = 0;
  // Makes the meter of an evaluation.
  virtual std::unique_ptr<Meter> meter() const = 0;

  // Called once before the first loss() of a training in type `compute`. Prepares objects that only
  // training needs, such as a teacher. Throws ConfigError or DataError if that is not possible.
  virtual void prepare_training(DType compute) { static_cast<void>(compute); }
  // Number of parameters of models that training keeps in memory besides the stores. Valid after
  // prepare_training().
  virtual std::int64_t other_parameters() const { return 0; }
  // The config for checkpoints. Valid after prepare_training(). Files that a run depends on by
  // their content are named by that content instead of their path.
  virtual ExperimentConfig checkpoint_config(const ExperimentConfig& config) const {
    return config;
  }

  // Called at the end of every step, and captured with the step on a CUDA device. Updates state
  // that follows the weights without a gradient, such as a teacher. Must change nothing if the
  // update was skipped, see average_into() in dtn/optim/optimizer.h.
  virtual void after_update(const UpdateState*) {}

  // The first store is trained; all are saved, restored and shared between ranks.
  virtual std::vector<Named<ParameterStore*>> stores() = 0;
  // The model whose layers an observer can see (Backbone::layers()); null: none.
  virtual Backbone* backbone() { return nullptr; }
  // Called by a trainer with the training samples, before load_weights() and before the validation
  // split is opened. The outputs then stand for the classes of these samples.
  virtual void learn_classes(const SampleSource& training) { static_cast<void>(training); }
  // Loads the weights of a file into the first store; returns notes for the user. By default, the
  // file must contain every parameter under its name, and nothing else. Throws DataError otherwise,
  // and for evaluation if a part of the weights would stay random.
  virtual std::vector<std::string> load_weights(const std::string& file, WeightsUse use);
  // The trained model, in a line for messages.
  virtual std::string description() const = 0;
  // The loss, in a line for messages; empty: nothing to report.
  virtual std::string objective() const { return ""; }
  // The cost of a sample, for tables and estimates. By default: the parameters of the first store,
  // and zeros for unknown values.
  virtual Complexity cost();
};

// Arguments for making a task. The registries outlive it. If a run is only estimated, the device is
// kMeta, whose tensors have shapes but no values. ParameterStore::initialize() then does nothing,
// and no code may read a weight.
struct TaskSetup {
  const ExperimentConfig& config;
  Device device;
  const Registries& registries;
};

// A task in the registry.
struct TaskEntry {
  TaskSchema schema;
  std::function<std::unique_ptr<Task>(const TaskSetup&)> make;

  const std::string& name() const { return schema.name; }
};

// The available tasks.
using TaskRegistry = Registry<TaskEntry>;

// The tasks of the library.
const TaskRegistry& task_registry();

// Makes the task that the config names.
std::unique_ptr<Task> make_task(const TaskSetup& setup);

}  // namespace dtn
