#include "apps/bench/benchmark.h"

#include <algorithm>

#include "apps/bench/random_batch.h"
#include "apps/estimate/device_memory.h"
#include "apps/estimate/loading_rate.h"
#include "apps/estimate/step_profile.h"
#include "apps/estimate/timing.h"
#include "core/seconds_since.h"
#include "data/feed/open_split.h"
#include "dtn/tasks/classify.h"
#include "train/learner.h"

namespace dtn {
namespace {

using Clock = std::chrono::steady_clock;

DType dtype_of(Precision precision) {
  return precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

// Times the stages of images for about `seconds`. The stride kStep reaches all classes of a sorted
// data set. Damaged images are skipped. Samples that need no preparation have no stages to time.
void time_stages(const Dataset& data, const Transform& transform, std::uint64_t seed,
                 double seconds, DataBenchmark& result) {
  constexpr std::int64_t kWarmup = 4, kStep = 7919;
  SampleWorkspace sample_workspace;
  TransformWorkspace workspace;
  StageSeconds stages;
  std::vector<float> out(static_cast<std::size_t>(transform.output_size()));
  double read = 0, normalize = 0;
  std::int64_t images = 0;
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < kWarmup || seconds_since(start) < seconds; ++i) {
    if (i == kWarmup) {
      stages = {};
      workspace.stages = &stages;
      read = normalize = 0;
      images = 0;
    }
    const SampleKey key{seed, 0, static_cast<std::uint64_t>(i)};
    try {
      const auto began = Clock::now();
      const Sample sample = data.load(i * kStep % data.size(), sample_workspace);
      if (!sample.ready.empty()) return;
      read += seconds_since(began);
      const PreparedImage prepared =
          sample.image
              ? transform.prepare(*sample.image, key, workspace)
              : transform.decode_and_prepare(sample.encoded, sample_workspace.name, key, workspace);
      const auto ready = Clock::now();
      transform.normalize(prepared, key, out.data());
      normalize += seconds_since(ready);
      ++images;
    } catch (const DataError&) {
      continue;
    }
  }
  if (images == 0) return;
  const double scale = 1e6 / static_cast<double>(images);
  result.read_us = read * scale;
  result.decode_us = stages.decode * scale;
  result.resize_us = stages.resize * scale;
  result.augment_us = stages.augment * scale;
  result.normalize_us = normalize * scale;
}

// Traces the kernels of a step on a CUDA device. No earlier step may have read `batch`: the first
// two steps with a new batch run kernel by kernel, and only the third is captured as a graph. The
// host enqueues the traced second step while the first runs, so no traced kernel waits for it.
std::vector<KernelTotal> trace_step(Learner& learner, const Fields& batch, std::int64_t step) {
  learner.start_step(batch, step, 1e-4);
  const cuda::Trace trace;
  learner.start_step(batch, step + 1, 1e-4);
  learner.finish_step();
  learner.finish_step();
  return add_up(trace.launches());
}

}  // namespace

TrainBenchmark benchmark_train(const ExperimentConfig& config, const StepsToTime& run,
                               Device device, Communicator* ranks, const Registries& registries) {
  Communicator only;
  if (!ranks) ranks = &only;
  const int processes = ranks->size();
  if (config.train.batch_size < processes) {
    throw ConfigError(cat("train.batch_size ", config.train.batch_size,
                          " is smaller than the number of processes, ", processes));
  }
  TrainBenchmark result;
  DType dtype = dtype_of(config.train.precision);
  const auto images = static_cast<std::int64_t>(
      rows_of_rank(config.train.batch_size, ranks->rank(), processes).size());
  const std::int64_t micro = std::min(micro_batch(config.train), images);
  // All processes measure at the same time, as in a step.
  auto ceiling = [&] {
    ranks->barrier();
    Tensor rate =
        Tensor::full({1}, DType::kFloat64,
                     best_rate(measure_gemms(config.model, micro, dtype, device, run.cube)));
    ranks->all_reduce(rate);
    return *rate.data<double>();
  };
  double before = ceiling();
  release_memory(device);
  Classify task({config, device, registries});
  Learner learner(config, task, device, ranks, registries.optimizers);
  const Fields batch = random_batch(config.model, images, device);
  reset_peak_memory(device);
  for (int i = 0; i < run.warmup; ++i) learner.step(batch, i, 1e-4);
  ranks->barrier();
  std::uint64_t misses = memory_stats(device).misses;
  const CommunicationTime communication = ranks->time();
  std::vector<double> times;
  for (int i = 0; i < run.steps; ++i) {
    times.push_back(seconds_of(device, [&] { learner.step(batch, run.warmup + i, 1e-4); }));
  }
  const CommunicationTime after = ranks->time();
  result.allocator_misses = static_cast<std::int64_t>(memory_stats(device).misses - misses);
  result.peak_bytes = static_cast<std::int64_t>(memory_stats(device).peak_bytes);
  double step = median(times);
  result.step_ms = step * 1e3;
  if (run.trace && device != kCpu && processes == 1) {
    const Fields elsewhere = random_batch(config.model, images, device);
    result.kernels = trace_step(learner, elsewhere, run.warmup + run.steps);
  }
  result.images_per_second = config.train.batch_size / step;
  result.gflops_per_image = 6 * task.cost().computed_multiply_adds / 1e9;
  result.gemm_gflops = std::max(before, ceiling());
  result.mfu = result.gflops_per_image * result.images_per_second / result.gemm_gflops;
  result.processes = processes;
  result.communication_ms = 1e3 * (after.moving - communication.moving) / run.steps;
  result.communication_waited_ms = 1e3 * (after.waiting - communication.waiting) / run.steps;
  const std::size_t element = config.train.reduce == ReducePrecision::kBFloat16 ? 2 : 4;
  result.communication_bytes = 2.0 * (processes - 1) / processes *
                               static_cast<double>(learner.parameters().flat_size()) *
                               static_cast<double>(element);
  return result;
}

EvalBenchmark benchmark_eval(const ExperimentConfig& config, const StepsToTime& run, Device device,
                             const Registries& registries) {
  EvalBenchmark result;
  DType dtype = dtype_of(config.train.precision);
  std::int64_t micro = micro_batch(config.train);
  auto ceiling = [&] {
    return best_rate(measure_gemms(config.model, micro, dtype, device, run.cube));
  };
  double before = ceiling();
  Classify task({config, device, registries});
  const Fields batch = random_batch(config.model, micro, device);
  if (dtype == DType::kBFloat16) task.model().parameters().enable_bfloat16();
  const auto evaluate = [&] {
    Context ctx;
    ctx.mode.compute = dtype;
    task.outputs(ctx, batch).at("logits").to(kCpu);
  };
  reset_peak_memory(device);
  for (int i = 0; i < run.warmup; ++i) evaluate();
  std::vector<double> times;
  for (int i = 0; i < run.steps; ++i) {
    times.push_back(seconds_of(device, evaluate));
  }
  result.peak_bytes = static_cast<std::int64_t>(memory_stats(device).peak_bytes);
  result.images_per_second = static_cast<double>(micro) / median(times);
  result.gflops_per_image = 2 * task.cost().computed_multiply_adds / 1e9;
  result.gemm_gflops = std::max(before, ceiling());
  result.mfu = result.gflops_per_image * result.images_per_second / result.gemm_gflops;
  return result;
}

DataBenchmark benchmark_data(const ExperimentConfig& config, double seconds, Split split,
                             const DataRegistries& registries) {
  const auto images = open_image_samples(config, split, kCpu, registries);
  const LoadingRate rate = measure_loading(images, config, config.train.batch_size, split, seconds);
  DataBenchmark result;
  result.images_per_second = rate.samples_per_second;
  result.images = rate.samples;
  result.bad_images = rate.bad_samples;
  time_stages(images->dataset(), images->transform(), config.seed, seconds / 4, result);
  return result;
}

}  // namespace dtn
