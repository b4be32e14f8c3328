#include "train/run.h"

#include <fstream>
#include <iterator>

#include "core/cuda_device.h"
#include "core/format.h"
#include "data/classes/match_classes.h"
#include "dtn/config/load.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"
#include "dtn/core/version.h"
#include "dtn/models/complexity.h"
#include "io/atomic_file.h"
#include "io/weights_file.h"
#include "train/freeze.h"
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

std::unique_ptr<OpenSplit> open_checked(const Task& task, const ExperimentConfig& config,
                                        Split split, Device device, Communicator& ranks) {
  const bool training = split == Split::kTrain;
  const std::shared_ptr<const SampleSource> source = task.source(split, device);
  check_equal_data(*source, ranks);
  log_info(cat(name_of(split), ": ", source->description()));
  return open_split(source, config, split,
                    {.device = device,
                     .batch_size = training ? config.train.batch_size
                                            : evaluation_batch(config.train, ranks.size()),
                     .rank = ranks.rank(),
                     .ranks = ranks.size()});
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

void resume(Run& run, const std::filesystem::path& checkpoint, const ConfigSchemas& schemas) {
  const CheckpointData data = load_checkpoint(checkpoint);
  check_same_classes(data, run.train->source(), checkpoint.string());
  restore_snapshot(data, run.config, schemas, run.learner, run.progress);
  run.resumed_at = run.progress.step;
  if (run.progress.steps_per_epoch == run.steps_per_epoch) return;
  throw ConfigError(cat("--resume: the checkpoint has ",
                        counted(run.progress.steps_per_epoch, "steps"), " per epoch, this run has ",
                        run.steps_per_epoch, "; the data set or train.batch_size has changed"));
}

void start_from_weights(Run& run, const std::string& named) {
  const auto file = find_weights(named);
  if (!file) {
    throw DataError(cat("model.init_weights: ", named,
                        " is neither a safetensors file nor a folder with the weights of a model"));
  }
  log_info(cat("init_weights: ", file->string()));
  for (const std::string& note : run.task->load_weights(file->string(), WeightsUse::kTraining)) {
    log_info(cat("init_weights: ", note));
  }
  if (run.config.model.init_head == InitHead::kReset) {
    run.learner.parameters().initialize_some(run.config.seed,
                                             [](const Parameter& p) { return p.head; });
    log_info("init_weights: head: initialized randomly (model.init_head)");
  }
  if (MovingAverage* average = run.learner.average()) {
    average->values().copy_from(run.learner.parameters().values());
  }
}

// Writes the config to the run folder. If an earlier config differs, keeps it as config.yaml.<n>.
void write_config(const std::filesystem::path& folder, const std::string& text) {
  const std::filesystem::path file = folder / "config.yaml";
  if (std::ifstream old(file); old) {
    const std::string before(std::istreambuf_iterator<char>(old), {});
    if (before == text) return;
    int number = 1;
    const auto kept = [&] { return folder / cat("config.yaml.", number); };
    while (std::filesystem::exists(kept())) ++number;
    std::filesystem::copy_file(file, kept());
    log_info(cat("saved the previous config as ", kept().string()));
  }
  write_file_atomic(file, text);
}

}  // namespace

std::string device_text(const Run& run) {
  const bool on_cpu = run.learner.device() == kCpu;
  const int threads = max_threads();
  const std::string one =
      on_cpu ? "cpu, " + counted(threads, "threads") : std::string(cuda::device_info().name);
  return run.ranks.is_single() ? one : cat(run.ranks.size(), " processes with ", one, " each");
}

std::unique_ptr<Run> open_run(const ExperimentConfig& config, const TrainerOptions& options,
                              Communicator& ranks) {
  const Device device = options.device;
  check_batch_norm(config, *options.registries, ranks);
  std::unique_ptr<Task> task = make_task({config, device, *options.registries});
  std::unique_ptr<OpenSplit> train = open_checked(*task, config, Split::kTrain, device, ranks);
  task->learn_classes(train->source());
  std::unique_ptr<OpenSplit> val = open_checked(*task, config, Split::kVal, device, ranks);
  const std::int64_t steps_per_epoch = train->loader().batches_per_epoch();
  Task& learnt = *task;
  std::unique_ptr<Run> run(new Run{
      .config = config,
      .output = options.output,
      .ranks = ranks,
      .task = std::move(task),
      .train = std::move(train),
      .val = std::move(val),
      .steps_per_epoch = steps_per_epoch,
      .rate = LearningRate(config.optim, config.schedule, config.train.batch_size, steps_per_epoch),
      .learner = Learner(config, learnt, device, &ranks, options.registries->optimizers),
      .progress = {},
      .resumed_at = {},
      .log = {},
      .commit = {},
      .attempts = {}});
  check_equal_config(run->task->checkpoint_config(config),
                     ranks);  // also compares the teachers' weights
  if (ranks.is_root() && options.resume_from) {
    resume(*run, *options.resume_from, options.registries->schemas());
  } else if (ranks.is_root() && config.model.init_weights) {
    start_from_weights(*run, *config.model.init_weights);
  }
  share_run(run->learner, run->progress, run->resumed_at, ranks);
  run->progress.steps_per_epoch = steps_per_epoch;
  if (ranks.is_root()) {
    write_config(run->output, to_yaml(config));
    run->commit = options.commit;
    run->attempts = std::make_unique<Attempts>(run->output, run->resumed_at.has_value(),
                                               Attempt{.started = {},
                                                       .from_step = run->progress.step,
                                                       .training = {},
                                                       .device = device_text(*run),
                                                       .version = version(),
                                                       .commit = options.commit});
  }
  run->log = std::make_unique<RunLog>(run->output, !ranks.is_root(), run->resumed_at,
                                      run->progress.evaluated_step, run->rate.total_steps(),
                                      steps_per_epoch, run->train->source().noun());
  return run;
}

namespace {

// Describes the data workers of the host that feed a CUDA device; empty on the CPU.
std::string feeding_text(const Run& run) {
  if (run.learner.device() == kCpu) return {};
  return cat(", fed by ",
             counted(workers_of(run.config.data, run.learner.device()), "data workers"),
             run.ranks.is_single() ? "" : " each");
}

}  // namespace

void describe(Run& run) {
  run.log->info(cat("program: dtn ", version(), ", commit ", run.commit));
  run.log->info(cat("model: ", run.task->description()));
  if (const std::string objective = run.task->objective(); !objective.empty()) {
    run.log->info(cat("loss: ", objective));
  }
  run.log->info(cat("run: ", counted(run.rate.total_steps(), "steps"), " of ",
                    counted(run.config.train.batch_size, run.train->source().noun()), ", ",
                    counted(run.steps_per_epoch, "steps"), " per epoch, ",
                    name_of(run.learner.compute_dtype()), " on ", device_text(run),
                    feeding_text(run), ", learning rate ", run.rate.peak()));
  if (const std::string rates = run.learner.optimizer().rates(); !rates.empty()) {
    run.log->info(cat("rates: ", rates));
  }
  if (const std::string frozen = describe_frozen(run.learner.parameters()); !frozen.empty()) {
    run.log->info(cat("frozen: ", frozen));
  }
  if (run.resumed_at) run.log->info(cat("resumed at step ", *run.resumed_at));
}

}  // namespace dtn
