#include "bench/benchmark.h"

#include <algorithm>

#include "bench/run_size.h"
#include "bench/timing.h"
#include "core/allocator.h"
#include "core/cuda_device.h"
#include "data/feed/loader.h"
#include "dtn/data/datasets.h"
#include "dtn/models/complexity.h"
#include "train/evaluator.h"
#include "train/learner.h"

namespace dtn {
namespace {

using Clock = std::chrono::steady_clock;

struct RandomBatch {
  Tensor images, labels;

  RandomBatch(const ModelConfig& model, std::int64_t n, Device device) {
    images = random_tensor({n, model.channels, model.image_size, model.image_size}, DType::kFloat32,
                           1, device);
    Tensor host = Tensor::empty({n}, DType::kInt64);
    for (std::int64_t i = 0; i < n; ++i) host.data<std::int64_t>()[i] = i % model.num_classes;
    labels = host.to(device);
  }
};

DType dtype_of(Precision precision) {
  return precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

AllocatorStats stats_of(Device device) {
  return device == kCpu ? allocator_stats() : cuda::allocator_stats();
}
void reset_peak(Device device) { device == kCpu ? reset_peak_bytes() : cuda::reset_peak_bytes(); }
void release_cache(Device device) {
  device == kCpu ? release_cached_memory() : cuda::release_cached_memory();
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Prepares images for about that many seconds, going through the data set in steps that reach all
// of its classes; damaged ones and those without pixels are left out.
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

}  // namespace

TrainBenchmark benchmark_train(const ExperimentConfig& config, int steps, int warmup, Device device,
                               Communicator* ranks) {
  Communicator only;
  if (!ranks) ranks = &only;
  const int processes = ranks->size();
  if (config.train.batch_size < processes) {
    throw ConfigError(cat("train.batch_size ", config.train.batch_size,
                          " has no image for each of ", processes, " processes"));
  }
  TrainBenchmark result;
  DType dtype = dtype_of(config.train.precision);
  const auto images = static_cast<std::int64_t>(
      rows_of_rank(config.train.batch_size, ranks->rank(), processes).size());
  const std::int64_t micro = std::min(micro_batch(config.train), images);
  // All at once, as in a step.
  auto ceiling = [&] {
    ranks->barrier();
    Tensor rate = Tensor::full({1}, DType::kFloat64,
                               best_rate(measure_gemms(config.model, micro, dtype, device)));
    ranks->all_reduce(rate);
    return *rate.data<double>();
  };
  double before = ceiling();
  release_cache(device);
  Learner learner(config, device, ranks);
  RandomBatch batch(config.model, images, device);
  reset_peak(device);
  for (int i = 0; i < warmup; ++i) learner.step(batch.images, batch.labels, i, 1e-4);
  ranks->barrier();
  std::uint64_t misses = stats_of(device).misses;
  const CommunicationTime communication = ranks->time();
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    times.push_back(
        seconds_of(device, [&] { learner.step(batch.images, batch.labels, warmup + i, 1e-4); }));
  }
  const CommunicationTime after = ranks->time();
  result.allocator_misses = static_cast<std::int64_t>(stats_of(device).misses - misses);
  result.peak_bytes = static_cast<std::int64_t>(stats_of(device).peak_bytes);
  double step = median(times);
  result.step_ms = step * 1e3;
  result.images_per_second = config.train.batch_size / step;
  result.gflops_per_image = 6 * complexity_of(config.model).multiply_adds / 1e9;
  result.gemm_gflops = std::max(before, ceiling());
  result.mfu = result.gflops_per_image * result.images_per_second / result.gemm_gflops;
  result.processes = processes;
  result.communication_ms = 1e3 * (after.moving - communication.moving) / steps;
  result.communication_waited_ms = 1e3 * (after.waiting - communication.waiting) / steps;
  const std::size_t element = config.train.reduce == ReducePrecision::kBFloat16 ? 2 : 4;
  result.communication_bytes = 2.0 * (processes - 1) / processes *
                               static_cast<double>(learner.model().parameters().flat_size()) *
                               static_cast<double>(element);
  return result;
}

StepGlance glance_at_step(const ExperimentConfig& config, Device device) {
  constexpr double kWork = 50e9;  // multiply-adds of a step, where a whole micro-batch has more
  ExperimentConfig small = config;
  std::int64_t images = micro_batch(config.train);
  if (device == kCpu) {
    double most = kWork / (3 * complexity_of(config.model).multiply_adds);
    images = std::clamp<std::int64_t>(static_cast<std::int64_t>(most), 4,
                                      std::max<std::int64_t>(images, 4));
  }
  small.train.batch_size = static_cast<int>(images);
  small.train.micro_batch.reset();
  Learner learner(small, device);
  RandomBatch batch(small.model, images, device);
  std::int64_t step = 0;
  const std::size_t before = stats_of(device).bytes_in_use;
  auto bytes_of_step = [&](std::int64_t n) {
    reset_peak(device);
    learner.step(batch.images.slice(0, n), batch.labels.slice(0, n), step++, 1e-4);
    return static_cast<double>(stats_of(device).peak_bytes - before);
  };
  // Two sizes tell what grows with the images. None of these steps is captured on a device.
  const std::int64_t half = std::max<std::int64_t>(images / 2, 1);
  bytes_of_step(half);  // sets up what stays
  const double bytes_of_half = bytes_of_step(half), bytes_of_all = bytes_of_step(images);
  StepGlance glance;
  glance.bytes_per_image = images > half
                               ? (bytes_of_all - bytes_of_half) / static_cast<double>(images - half)
                               : bytes_of_all / static_cast<double>(images);
  glance.bytes = std::max(0.0, bytes_of_all - glance.bytes_per_image * static_cast<double>(images));
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) {
    times.push_back(
        seconds_of(device, [&] { learner.step(batch.images, batch.labels, step++, 1e-4); }));
  }
  glance.seconds_per_image = median(times) / static_cast<double>(images);
  return glance;
}

EvalBenchmark benchmark_eval(const ExperimentConfig& config, int steps, int warmup, Device device) {
  EvalBenchmark result;
  DType dtype = dtype_of(config.train.precision);
  std::int64_t micro = micro_batch(config.train);
  auto ceiling = [&] { return best_rate(measure_gemms(config.model, micro, dtype, device)); };
  double before = ceiling();
  VisionTransformer model(config.model, config.seed, DType::kFloat32, device);
  RandomBatch batch(config.model, micro, device);
  reset_peak(device);
  for (int i = 0; i < warmup; ++i) predict(model, batch.images, dtype);
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    times.push_back(seconds_of(device, [&] { predict(model, batch.images, dtype); }));
  }
  result.peak_bytes = static_cast<std::int64_t>(stats_of(device).peak_bytes);
  result.images_per_second = static_cast<double>(micro) / median(times);
  result.gflops_per_image = 2 * complexity_of(config.model).multiply_adds / 1e9;
  result.gemm_gflops = std::max(before, ceiling());
  result.mfu = result.gflops_per_image * result.images_per_second / result.gemm_gflops;
  return result;
}

DataBenchmark benchmark_data(const ExperimentConfig& config, double seconds, Split split,
                             Device device) {
  const ModelConfig& m = config.model;
  const bool training = split == Split::kTrain;
  std::shared_ptr<const Dataset> data = open_dataset(config.data, m, split, config.seed);
  const Transform transform(config.data, config.augment, m.image_size, m.channels, training);
  LoaderOptions options;
  options.copies = training ? config.augment.repeats : 1;
  const std::int64_t length = epoch_length(data->size(), 1, options.copies);
  options.batch_size = std::clamp<std::int64_t>(length, 1, config.train.batch_size);
  // An epoch long enough that its ends, where workers wait, do not count.
  options.repeats = static_cast<int>(std::clamp<std::int64_t>(
      100 * options.batch_size / std::max<std::int64_t>(data->size(), 1), 1, 1000));
  options.shuffle = training && config.data.shuffle;
  options.seed = config.seed;
  options.workers = workers_of(config.data, device);
  options.drop_last = true;
  options.max_bad_images = config.data.max_bad_images;
  Loader loader(data, transform, options);
  DataBenchmark result;
  Batch batch;
  std::int64_t epoch = 0;
  loader.start(epoch);
  loader.next(batch);  // threads and buffers
  auto start = Clock::now();
  double elapsed = 0;
  while (elapsed < seconds) {
    if (loader.next(batch)) {
      result.images += batch.n;
    } else {
      loader.start(++epoch);
    }
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  result.images_per_second = static_cast<double>(result.images) / elapsed;
  result.bad_images = loader.report().bad_images;
  time_stages(*data, transform, config.seed, seconds / 4, result);
  return result;
}

}  // namespace dtn
