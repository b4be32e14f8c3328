#include "train/run_setup.h"

#include <algorithm>

#include "config/choices.h"
#include "config/model_cache.h"
#include "core/cuda_device.h"
#include "core/format.h"
#include "data/classes/class_counts.h"
#include "data/classes/match_classes.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"
#include "dtn/models/complexity.h"
#include "tasks/trained_weights.h"
#include "train/micro_batches.h"
#include "train/rank_consistency.h"

namespace dtn {
namespace {

// Returns the global evaluation batch size. Each rank gets at most the samples of a training
// micro-batch.
std::int64_t evaluation_batch(const TrainConfig& train, int ranks) {
  const std::int64_t batch = train.batch_size;
  return train.micro_batch ? std::min<std::int64_t>(batch, std::int64_t{*train.micro_batch} * ranks)
                           : batch;
}

// Throws DataError if the training split has other classes than the checkpoint, or another order.
void check_same_classes(const CheckpointData& checkpoint, const SampleSource& training,
                        const std::string& folder) {
  const std::vector<std::string> names = training.class_names();
  if (names.empty() || checkpoint.class_names.empty()) return;
  const std::string advice =
      "a resumed run needs the classes that it started with; restore the class names of the data, "
      "or start a new run with model.init_weights";
  const ClassList before = named_classes(cat("the checkpoint ", folder), checkpoint.class_names);
  const ClassList now = named_classes("the training split", names);
  const ClassMatch match = match_classes(now, before, advice);
  if (match.is_identity() && now.count == before.count && match.note.empty()) return;
  throw DataError(cat("the ", counted(now.count, "classes"),
                      " of the training split differ in order or number from the ",
                      counted(before.count, "classes"), " of ", before.owner, "; ", advice));
}

// Throws ConfigError if a rank would train a classifier's BatchNorm on a single value per channel.
// This can happen only with a micro-batch of one sample. Every rank throws the same error. Other
// tasks, and statistics over all ranks, fail in their first step instead.
void check_batch_norm(const ExperimentConfig& config, const Registries& registries,
                      const Communicator& ranks) {
  if (config.task != "classify" || config.train.freeze.backbone) return;
  const NormConfig& norm = config.model.norm;
  const bool* sync = norm.type == "bn" ? norm.find<bool>("sync") : nullptr;
  if (sync && *sync && !ranks.is_single()) return;
  if (MicroBatches(config.train, ranks.is_single() ? nullptr : &ranks).min_rows() > 1) return;
  try_training_pass(config.model, 1, registries.models, registries.norms);
}

RunProgress resume(const std::filesystem::path& checkpoint, const ExperimentConfig& config,
                   const ConfigSchemas& schemas, OpenSplit& training, Learner& learner) {
  const CheckpointData data = load_checkpoint(checkpoint);
  check_same_classes(data, training.source(), checkpoint.string());
  RunProgress progress;
  restore_snapshot(data, config, schemas, learner, progress);
  progress.resumed_at = progress.step;
  const std::int64_t steps_per_epoch = training.loader().batches_per_epoch();
  if (progress.steps_per_epoch == steps_per_epoch) return progress;
  throw ConfigError(cat("--resume: the checkpoint has ", counted(progress.steps_per_epoch, "steps"),
                        " per epoch, this run has ", steps_per_epoch,
                        "; the data set or train.batch_size has changed"));
}

// Gives the folder of a resumed run its best checkpoint. Without one, the next evaluation counts as
// the best.
void restore_best(const TrainerOptions& options, RunProgress& progress) {
  const std::int64_t step = progress.best_step;
  const auto best = step < 0 ? std::nullopt : std::optional(step);
  if (continue_best(options.output, *options.resume_from, best) || !best) return;
  progress.best_step = -1;
  log_warn(cat("resume: the best checkpoint so far, step ", step,
               ", does not exist any more; the best one of the evaluations from here counts"));
}

void load_init_weights(const ExperimentConfig& config, const Registries& registries,
                       Learner& learner) {
  const std::string& named = *config.model.init_weights;
  const auto file =
      find_trained_weights(locate_weights(named, registries.schemas()), registries.tasks);
  if (!file) {
    throw DataError(cat("model.init_weights: ", named,
                        " is neither a safetensors file nor a folder with the weights of a model, "
                        "and no public model has this name; dtn-info --models lists them"));
  }
  log_info(cat("init_weights: ", file->string()));
  for (const std::string& note :
       learner.task().load_weights(file->string(), WeightsUse::kTraining)) {
    log_info(cat("init_weights: ", note));
  }
  if (config.model.init_head == InitHead::kReset) {
    learner.task().reset_head(config.seed);
    log_info("init_weights: head: initialized randomly (model.init_head)");
  }
  if (MovingAverage* average = learner.average()) {
    average->values().copy_from(learner.parameters().values());
  }
}

std::unique_ptr<OpenSplit> open_for_ranks(const std::shared_ptr<const SampleSource>& source,
                                          const ExperimentConfig& config, Split split,
                                          Device device, const Communicator& ranks) {
  return open_split(
      source, config, split,
      {.device = device,
       .batch_size = split == Split::kTrain ? config.train.batch_size
                                            : evaluation_batch(config.train, ranks.size()),
       .rank = ranks.rank(),
       .ranks = ranks.size()});
}

}  // namespace

std::unique_ptr<Task> open_task(const ExperimentConfig& config, const TrainerOptions& options,
                                const Communicator& ranks) {
  check_batch_norm(config, *options.registries, ranks);
  return make_task({config, options.device, *options.registries});
}

std::unique_ptr<OpenSplit> open_references(Task& task, const ExperimentConfig& config,
                                           Device device, Communicator& ranks) {
  const std::shared_ptr<const SampleSource> source = task.references(device);
  if (!source) return nullptr;
  return open_for_ranks(source, config, Split::kVal, device, ranks);
}

std::unique_ptr<OpenSplit> open_run_split(Task& task, const ExperimentConfig& config, Split split,
                                          Device device, Communicator& ranks) {
  const bool training = split == Split::kTrain;
  const std::shared_ptr<const SampleSource> source = task.source(split, device);
  if (!source) {
    log_info("val: none, so the run makes no evaluation; set data.val to make them");
    return nullptr;
  }
  check_equal_data(*source, ranks);
  log_info(cat(name_of(split), ": ", source->description()));
  auto opened = open_for_ranks(source, config, split, device, ranks);
  if (training) task.learn_classes(*source);
  return opened;
}

RunProgress load_start(const ExperimentConfig& config, const TrainerOptions& options,
                       OpenSplit& training, Learner& learner, Communicator& ranks) {
  check_equal_config(learner.task().checkpoint_config(config),
                     ranks);  // also compares the teachers' weights
  RunProgress progress;
  if (ranks.is_root() && options.resume_from) {
    progress =
        resume(*options.resume_from, config, options.registries->schemas(), training, learner);
    restore_best(options, progress);
  } else if (ranks.is_root() && config.model.init_weights) {
    load_init_weights(config, *options.registries, learner);
  }
  share_run(learner, progress, ranks);
  progress.steps_per_epoch = training.loader().batches_per_epoch();
  return progress;
}

ClassRemarks class_remarks(const ExperimentConfig& config, const SampleSource& training,
                           const Registries& registries) {
  ClassRemarks remarks;
  if (!config::is_read("data.sampling", config, registries.schemas())) return remarks;
  const std::vector<std::int64_t> labels = training.labels();
  const ClassSpread spread = class_spread(class_counts(labels));
  const bool balanced = config.data.sampling == Sampling::kBalanced;
  const ClassWeights& weights = config.train.class_weights;
  if (balanced) remarks.sampling = balanced_text(spread, training.noun());
  if (balanced && weights.balanced) {
    remarks.classes =
        "data.sampling: balanced and train.class_weights: balanced both even out the classes, so "
        "rare classes count too much; use one of the two";
  } else if (!balanced && !weights.any()) {
    remarks.classes = uneven_text(spread, training.class_names(), training.noun(),
                                  config.train.loss != LossKind::kBinary);
  }
  return remarks;
}

std::string device_text(Device device, const Communicator& ranks) {
  const int threads = max_threads();
  const std::string one = device == kCpu ? "cpu, " + counted(threads, "threads")
                                         : std::string(cuda::device_info().name);
  return ranks.is_single() ? one : cat(ranks.size(), " processes with ", one, " each");
}

}  // namespace dtn
