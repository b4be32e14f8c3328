// The interface of a training task: the fields of a sample, the loss, and the results of an
// evaluation. Trainer, learner, evaluator and checkpoints use tasks only through this interface.
#pragma once

#include <functional>
#include <memory>
#include <optional>
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
#include "dtn/io/image.h"
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
  // For a mean over some of the samples: their share in the batch, [1] float32. `value` is then the
  // sum over them, divided by the size of the batch. Undefined: a mean over all samples.
  Tensor share{};
};

// A value with its name.
template <class T>
struct Named {
  std::string name;
  T value;
};

// A problem that the figures of a training show.
struct TaskWarning {
  std::string name;  // of the kind of problem, for programs: "one_output"
  std::string text;  // what happens, and what to do
};

// Length of a run in optimizer steps.
struct RunLength {
  std::int64_t steps = 0;  // 0: not known, as in a benchmark
  std::int64_t steps_per_epoch = 1;
};

// The purpose of loaded weights: to continue training from them, or to use them unchanged.
enum class WeightsUse { kTraining, kEvaluation };

// A training task with its models.
class Task {
 public:
  virtual ~Task() = default;

  // The source of the samples, which may outlive the task. The feeder delivers the source's fields
  // on the device. Null for Split::kVal: the config has no validation split, so the run makes no
  // evaluation.
  virtual std::shared_ptr<const SampleSource> source(Split, Device) const = 0;

  // The mean loss over the samples of a (micro-)batch, [1] float32. The context gives the mode of
  // the model. A task that runs the model more than once gives each pass another Context::of_pass.
  // Terms have the same order in each call; there are at most kMaxTerms. Every rank must record
  // the same operations: each gradient is summed over the ranks as soon as it is complete.
  virtual Variable loss(Context&, const Fields& batch, std::vector<Term>& logged) = 0;
  static constexpr std::size_t kMaxTerms = 8;

  // False if a step computes with shapes, or values on the host, that depend on the batch. It then
  // cannot be captured as a graph.
  virtual bool has_fixed_shapes() const { return true; }
  // True if the loss of a sample depends on the other samples of its global batch. A step in
  // several micro-batches then shows all of them to the task, in order, before the first loss.
  virtual bool needs_whole_batch() const { return false; }
  // True if all ranks must have the same number of samples of a batch. The learner throws
  // ConfigError for a batch that cannot be divided so.
  virtual bool needs_equal_shares() const { return false; }
  // Takes a micro-batch of a step of `parts` micro-batches. Nothing is recorded, and running
  // statistics do not change. Called only if needs_whole_batch() and parts > 1.
  virtual void preview(Context& ctx, const Fields& batch, std::size_t part, std::size_t parts) {
    static_cast<void>(ctx), static_cast<void>(batch);
    static_cast<void>(part), static_cast<void>(parts);
  }

  // Names and values of what changes from step to step on a fixed schedule, such as the momentum of
  // a teacher; the same names in each call, at most kMaxScheduled. They are logged with each step.
  // `step` counts finished steps.
  virtual std::vector<Named<double>> scheduled(std::int64_t step, const RunLength& run) const {
    static_cast<void>(step), static_cast<void>(run);
    return {};
  }
  // Called once before the first loss() of a training. `values` holds those of the current step, in
  // the same order. They lie on the device, where a captured step reads them.
  virtual void use_scheduled(const double* values) { static_cast<void>(values); }
  // The step that first updates the parameters with Parameter::late.
  virtual std::int64_t late_from(const RunLength& run) const {
    static_cast<void>(run);
    return 0;
  }

  // Returns a problem that the logged terms show, such as a collapse of the features. `means` has
  // their means since the last log line, without steps that were skipped. `step` counts finished
  // steps. A run reports each kind of problem once, and goes on.
  virtual std::optional<TaskWarning> warning(const std::vector<Named<double>>& means,
                                             std::int64_t step, const RunLength& run) const {
    static_cast<void>(means), static_cast<void>(step), static_cast<void>(run);
    return std::nullopt;
  }

  // Returns a problem that the figures of an evaluation show, such as outputs that are worse than
  // the inputs. `step` counts finished steps; the run has no steps outside of a training. A run
  // reports each kind of problem once, and goes on.
  virtual std::optional<TaskWarning> evaluation_warning(const Metrics& metrics, std::int64_t step,
                                                        const RunLength& run) const {
    static_cast<void>(metrics), static_cast<void>(step), static_cast<void>(run);
    return std::nullopt;
  }

  // Input of the meter for an evaluation batch, on the device.
  virtual Fields outputs(Context&, const Fields& batch) = 0;
  // Samples with which evaluations compare, such as the training images of a classification by
  // nearest neighbors. Each evaluation gives the outputs for all of them to the meter first. Null:
  // none. Called only if there is a validation split.
  virtual std::shared_ptr<const SampleSource> references(Device device) const {
    static_cast<void>(device);
    return nullptr;
  }
  // A picture of the model's work, such as samples of a diffusion model, for the run folder. Drawn
  // with the current weights, in an evaluation with the type `compute`; the same on each call with
  // the same weights. Called only if picture_period() is set. Every rank calls it.
  virtual Image picture(DType compute);
  // The period at which a run writes picture(). Unset: never.
  virtual std::optional<Period> picture_period() const { return std::nullopt; }
  // The cost of picture() in multiply-adds, for estimates. 0: unknown.
  virtual double picture_multiply_adds() { return 0; }
  // True if the figures of an evaluation in training have the threshold of probabilities that suits
  // the weights best, "threshold". Checkpoints store it beside the weights.
  virtual bool finds_threshold() const { return false; }
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

  // The first store is trained; all are saved, restored and shared between ranks. A checkpoint
  // holds the tensors of another store as <store>/<tensor> in state.safetensors, or as <tensor> if
  // that store has no name.
  virtual std::vector<Named<ParameterStore*>> stores() = 0;
  // The store among them with the layout of the first that averages its weights, such as a
  // teacher's. It is saved as ema.safetensors instead. Null: none.
  virtual ParameterStore* averaged() { return nullptr; }
  // The model whose layers an observer can see (Backbone::layers()); null: none.
  virtual Backbone* backbone() { return nullptr; }
  // Called by a trainer with the training samples, before load_weights() and before the validation
  // split is opened. The outputs then stand for the classes of these samples.
  virtual void learn_classes(const SampleSource& training) { static_cast<void>(training); }
  // Loads the weights of a file into the first store; returns notes for the user. By default, the
  // file must contain every parameter under its name, and nothing else. Throws DataError otherwise,
  // and for evaluation if a part of the weights would stay random.
  virtual std::vector<std::string> load_weights(const std::string& file, WeightsUse use);
  // Gives the parameters with Parameter::head new random values, after load_weights() and before
  // training (model.init_head). A task with a second network resets the head of that network, too.
  virtual void reset_head(std::uint64_t seed);
  // The trained model, in a line for messages.
  virtual std::string description() const = 0;
  // The loss, in a line for messages; empty: nothing to report.
  virtual std::string objective() const { return ""; }
  // The cost of a sample, for tables and estimates. By default: the parameters of the first store,
  // and zeros for unknown values.
  virtual Complexity cost();
  // The cost of an evaluated sample, where that is not a training sample. By default: cost().
  virtual Complexity evaluation_cost() { return cost(); }
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

// The validation samples of a task. Throws DataError if the config has no validation split.
std::shared_ptr<const SampleSource> validation_source(const Task& task, Device device);

// Makes the task that the config names.
std::unique_ptr<Task> make_task(const TaskSetup& setup);

}  // namespace dtn
