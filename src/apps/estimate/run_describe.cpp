#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "apps/estimate/run_size.h"
#include "apps/estimate/step_profile.h"
#include "config/choices.h"
#include "core/cuda_device.h"
#include "core/format.h"
#include "core/progress.h"
#include "data/feed/loader_options.h"
#include "dtn/core/check.h"
#include "train/run_setup.h"

namespace dtn {
namespace {

std::string rate_text(const ExperimentConfig& config, const RunSize& size,
                      const Registries& registries) {
  const OptimConfig& optim = config.optim;
  std::string text = format("effective learning rate: %g", size.peak_rate);
  if (optim.lr_scale_batch) {
    text += format(" (%g x %d / %g)", optim.lr, config.train.batch_size, *optim.lr_scale_batch);
  }
  if (config.schedule.warmup_epochs > 0) {
    const double epochs = config.schedule.warmup_epochs;
    text += format(", after %g %s of warmup from %g", epochs, epochs == 1 ? "epoch" : "epochs",
                   config.schedule.warmup_lr);
  }
  if (config::is_read("schedule.min_lr", config, registries.schemas())) {
    text += format(", down to %g", config.schedule.min_lr);
  }
  return text + "\n";
}

// Returns the memory limit of the process's control group; infinity if there is none.
double group_bytes() {
  double least = std::numeric_limits<double>::infinity();
  for (const char* file : {"/sys/fs/cgroup/memory.max",  // version 2, then version 1
                           "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    double bytes = 0;
    if (std::ifstream(file) >> bytes && bytes > 0) least = std::min(least, bytes);
  }
  return least;
}

// Lower bound of a run's memory in bytes: the optimizer state, and the activations that one
// micro-batch keeps for the backward pass.
double least_bytes(const ExperimentConfig& config, const Complexity& cost) {
  const bool low = config.train.precision == Precision::kBFloat16;
  const double activations = low ? cost.activation_bytes_bf16 : cost.activation_bytes_fp32;
  return 8 * static_cast<double>(cost.parameters) +
         activations * static_cast<double>(micro_batch(config.train));
}

// Returns the config of one process of a job: with its part of the batch.
ExperimentConfig share_of(const ExperimentConfig& config, int processes) {
  ExperimentConfig share = config;
  share.train.batch_size = std::max(1, config.train.batch_size / processes);
  if (share.train.micro_batch && *share.train.micro_batch >= share.train.batch_size) {
    share.train.micro_batch.reset();
  }
  return share;
}

constexpr const char* kLessMemory = "lower train.micro_batch, or set train.checkpoint_blocks";

std::string memory_text(const RunMemory& m, Device device) {
  std::string text = "memory: about " + bytes_text(m.total()) + ": weights " +
                     bytes_text(m.weights) +
                     (m.teacher > 0 ? ", teacher " + bytes_text(m.teacher) : "") + ", gradients " +
                     bytes_text(m.gradients) + ", moments " + bytes_text(m.moments);
  if (m.average > 0) text += ", average " + bytes_text(m.average);
  text +=
      ", activations " + bytes_text(m.activations) + ", batches " + bytes_text(m.batches) + "\n";
  if (m.host_batches > 0) {
    text += "host memory: batches " + bytes_text(m.host_batches) + "\n";
  }
  const double have = machine_bytes(device);
  if (m.total() > have) {
    text += "  more than the available " + bytes_text(have) + "; " + kLessMemory + "\n";
  }
  return text;
}

// Measures with small batches of at most kMaxSamples: the batch size does not change the time.
double load_seconds(const ExperimentConfig& config, const RunData& data, Device device) {
  constexpr double kSeconds = 0.25;
  constexpr std::int64_t kMaxSamples = 64;
  const std::int64_t batch_size = std::min<std::int64_t>(config.train.batch_size, kMaxSamples);
  return 1 / measure_loading(data.train, config, batch_size, Split::kTrain, kSeconds, device)
                 .samples_per_second;
}

std::string classes_text(const ExperimentConfig& config, const SampleSource& training,
                         const Registries& registries) {
  const ClassRemarks remarks = class_remarks(config, training, registries);
  std::string text;
  if (!remarks.sampling.empty()) text += cat("sampling: ", remarks.sampling, "\n");
  if (!remarks.classes.empty()) text += cat("classes: ", remarks.classes, "\n");
  return text;
}

std::string per_second(double rate) { return format(rate < 100 ? "%.1f" : "%.0f", rate); }

std::string time_text(const ExperimentConfig& config, const RunSize& size, double step, double load,
                      const std::string& noun, Device device) {
  const RunTime time = time_of_run(config, size, step, load, device);
  std::string parts = format("training %s, %s %s", format_duration(time.training).c_str(),
                             counted(evaluations_of(config.train, size), "evaluations").c_str(),
                             format_duration(time.evaluation).c_str());
  if (size.pictures > 0) {
    parts += cat(", ", counted(size.pictures, "pictures"), " ", format_duration(time.pictures));
  }
  return format("speed: about %s %s/s (the model alone %s, loading alone %s with %d workers)\n",
                per_second(1 / time.per_sample).c_str(), noun.c_str(), per_second(1 / step).c_str(),
                per_second(1 / load).c_str(), workers_of(config.data, device)) +
         cat("time on this machine: about ", format_duration(time.total()), ": ", parts, "\n");
}

}  // namespace

double machine_bytes(Device device) {
  if (device != kCpu) return static_cast<double>(cuda::device_info().total_bytes);
  const double physical =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return std::min(physical, group_bytes());
}

std::string memory_warning(const ExperimentConfig& config, Device device, int processes,
                           int processes_here, const Registries& registries) try {
  ExperimentConfig share = share_of(config, processes);
  const std::unique_ptr<Task> task = make_task({share, kMeta, registries});
  const Complexity cost = task->cost();
  const double have = machine_bytes(device) / (device == kCpu ? processes_here : 1);
  double need = least_bytes(share, cost);
  constexpr double kCloseTo = 0.5;
  if (cost.multiply_adds == 0 || need < kCloseTo * have) return "";
  if (need <= have || share.train.checkpoint_blocks) {
    // Close to the limit, or with recomputed activations: measure, as a dry run does.
    std::string ignored;
    const RunData data = open_or_synthesize(*task, share, device, registries, ignored);
    const StepProfile step =
        profile_step(share, data.train, cost.multiply_adds, device, registries);
    need = memory_of_run(share, data, cost.parameters, step, device, registries.optimizers).total();
  }
  if (need <= have) return "";
  return cat("memory: the run needs about ", bytes_text(need), ", more than the available ",
             bytes_text(have), processes_here > 1 ? " per process" : "", "; ", kLessMemory);
} catch (const Error&) {
  return "";  // a run starts without an estimate; its own errors say more
}

std::string describe_run(const ExperimentConfig& asked, const std::filesystem::path& output,
                         Device device, const Registries& registries) {
  ExperimentConfig config = asked;
  std::string text;
  const std::unique_ptr<Task> task = make_task({config, kMeta, registries});
  const RunData data = open_or_synthesize(*task, config, device, registries, text);
  const bool has_data = text.empty();
  const RunSize size = size_of_run(config, data, registries.schedules);
  const Complexity cost = task->cost();
  const StepProfile step = profile_step(config, data.train, cost.multiply_adds, device, registries);
  const RunMemory memory =
      memory_of_run(config, data, cost.parameters, step, device, registries.optimizers);
  text +=
      cat("train: ", data.train->description(),
          "\nval: ", data.val ? data.val->description() : "none, so the run makes no evaluation",
          "\n", has_data ? classes_text(config, *data.train, registries) : "",
          "parameters: ", cost.parameters, "\n");
  if (cost.multiply_adds > 0) {
    text += format("multiply-adds per sample: %.3f G\n", cost.multiply_adds / 1e9);
  }
  return text + cat("steps per epoch: ", size.steps_per_epoch, "\nsteps: ", size.steps, "\n",
                    rate_text(config, size, registries), memory_text(memory, device),
                    time_text(config, size, step.seconds_per_sample,
                              load_seconds(config, data, device), data.train->noun(), device),
                    "output: ", output.string(), "\n");
}

}  // namespace dtn
