#include "apps/estimate/step_profile.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "apps/estimate/timing.h"
#include "core/seconds_since.h"
#include "data/feed/epoch_plan.h"
#include "data/feed/open_split.h"
#include "train/learner.h"

namespace dtn {
namespace {

// Returns the number of samples to measure, at least `least`. On the CPU, `work` bounds their
// multiply-adds.
std::int64_t samples_to_look_at(const ExperimentConfig& config, double multiply_adds, double work,
                                std::int64_t least, Device device) {
  constexpr std::int64_t kMaxUnknownCost = 16;
  const std::int64_t micro = micro_batch(config.train);
  if (device != kCpu) return micro;
  const double each = 3 * multiply_adds;
  const auto most = each > 0 ? static_cast<std::int64_t>(work / each) : kMaxUnknownCost;
  return std::clamp(most, least, std::max(micro, least));
}

// Ratios of sample lengths, if the cost of a sample depends on its length: the mean of all lengths
// to the mean in `batch`, and the longest of all to the longest in `batch`. Otherwise 1.
struct LengthRatios {
  double mean = 1, longest = 1;
};

LengthRatios length_ratios(const SampleSource& source, const DeviceBatch& batch) {
  const std::vector<std::int64_t> all = source.lengths();
  if (all.empty()) return {};
  std::vector<std::int64_t> these;
  for (const std::int64_t i : batch.indices) these.push_back(all[static_cast<std::size_t>(i)]);
  const auto mean = [](const std::vector<std::int64_t>& lengths) {
    return static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})) /
           static_cast<double>(lengths.size());
  };
  return {mean(all) / mean(these), static_cast<double>(std::ranges::max(all)) /
                                       static_cast<double>(std::ranges::max(these))};
}

// Returns the median of up to three calls; of fewer if they take `enough` seconds.
double seconds_of_a_few(Device device, double enough, const std::function<void()>& work) {
  std::vector<double> times;
  for (double all = 0; times.size() < 3 && all < enough; all += times.back()) {
    times.push_back(seconds_of(device, work));
  }
  return median(times);
}

// Returns the memory of the stores after the first, which learns.
double bytes_of_other_stores(Task& task) {
  const auto bytes = [](const Tensor& t) {
    return t.defined() ? static_cast<double>(t.nbytes()) : 0.0;
  };
  double sum = 0;
  for (const Named<ParameterStore*>& store : task.stores()) {
    if (store.value == task.stores().front().value) continue;
    sum += bytes(store.value->values()) + bytes(store.value->gradients()) +
           bytes(store.value->bfloat16_values());
  }
  return sum;
}

// The config's task, a learner of it, and one batch of samples from the source.
struct Probe {
  std::unique_ptr<Task> task;
  std::int64_t samples;
  std::optional<Learner> learner;
  std::unique_ptr<OpenSplit> split;
  DeviceBatch batch;

  Probe(const ExperimentConfig& config, const std::shared_ptr<const SampleSource>& source,
        std::int64_t most, Device device, const Registries& registries)
      : task(make_task({config, device, registries})) {
    task->learn_classes(*source);
    const std::int64_t epoch =
        epoch_length(source->size(), config.data.repeats, config.augment.repeats);
    samples = std::clamp<std::int64_t>(most, 1, epoch);
    ExperimentConfig small = config;
    small.data.workers = 0;  // workers would load more samples during the timed steps
    small.train.batch_size = static_cast<int>(samples);
    small.train.micro_batch.reset();
    learner.emplace(small, *task, device, nullptr, registries.optimizers);
    split = open_split(source, small, Split::kTrain, {.device = device, .batch_size = samples});
    split->feeder().start(0);
    split->feeder().next(batch);
  }
};

}  // namespace

std::int64_t micro_batch(const TrainConfig& train) {
  return train.micro_batch.value_or(train.batch_size);
}

StepProfile profile_step(const ExperimentConfig& config,
                         const std::shared_ptr<const SampleSource>& source, double multiply_adds,
                         Device device, const Registries& registries) {
  Probe probe(config, source, samples_to_look_at(config, multiply_adds, 50e9, 2, device), device,
              registries);
  const std::int64_t samples = probe.samples;
  const DeviceBatch& batch = probe.batch;
  std::int64_t step = 0;
  const std::size_t before = memory_stats(device).bytes_in_use;
  auto bytes_of_step = [&](std::int64_t n) {
    reset_peak_memory(device);
    probe.learner->step(batch.fields.rows(0, n), step++, 1e-4);
    return static_cast<double>(memory_stats(device).peak_bytes - before);
  };
  // Two sizes separate fixed memory from memory per sample. None of these steps is captured.
  const std::int64_t half = std::max<std::int64_t>(samples / 2, 1);
  bytes_of_step(half);  // allocates the persistent memory
  const double bytes_of_half = bytes_of_step(half), bytes_of_all = bytes_of_step(samples);
  const auto n = static_cast<double>(samples);
  const LengthRatios lengths = length_ratios(*source, batch);
  StepProfile profile;
  profile.other_parameters = probe.task->other_parameters();
  profile.other_store_bytes = bytes_of_other_stores(*probe.task);
  profile.bytes_per_sample =
      samples > half ? (bytes_of_all - bytes_of_half) / static_cast<double>(samples - half)
                     : bytes_of_all / n;
  profile.bytes = std::max(0.0, bytes_of_all - profile.bytes_per_sample * n);
  profile.bytes_per_sample *= lengths.longest;
  profile.seconds_per_sample = lengths.mean / n * seconds_of_a_few(device, 2, [&] {
                                 probe.learner->step(batch.fields, step++, 1e-4);
                               });
  return profile;
}

double profile_seconds_per_sample(const ExperimentConfig& config,
                                  const std::shared_ptr<const SampleSource>& source,
                                  double multiply_adds, Device device,
                                  const Registries& registries) {
  if (device != kCpu) {
    return profile_step(config, source, multiply_adds, device, registries).seconds_per_sample;
  }
  Probe probe(config, source, samples_to_look_at(config, multiply_adds, 15e9, 1, device), device,
              registries);
  const auto gradients = [&] { probe.learner->add_gradients(probe.batch.fields, 0); };
  // The first call also allocates memory. If it takes long, that does not matter.
  constexpr double kLong = 1, kEnough = 0.2;
  double seconds = seconds_of(device, gradients);
  if (seconds < kLong) seconds = seconds_of_a_few(device, kEnough, gradients);
  return length_ratios(*source, probe.batch).mean * seconds / static_cast<double>(probe.samples);
}

LoadingRate measure_loading(std::shared_ptr<const SampleSource> source,
                            const ExperimentConfig& config, std::int64_t batch_size, Split split,
                            double seconds, Device device) {
  LoaderOptions options = loading_of(config, split, {.device = device});
  const std::int64_t size = source->size(), length = epoch_length(size, 1, options.copies);
  options.batch_size = std::clamp<std::int64_t>(length, 1, batch_size);
  // The epoch is long, so that the waiting of workers at its ends does not count.
  options.repeats = static_cast<int>(std::clamp<std::int64_t>(
      100 * options.batch_size / std::max<std::int64_t>(size, 1), 1, 1000));
  options.drop_last = true;
  Loader loader(std::move(source), options);
  LoadingRate result;
  Batch batch;
  std::int64_t epoch = 0;
  loader.start(epoch);
  loader.next(batch);  // starts the threads and fills the buffers
  const auto start = std::chrono::steady_clock::now();
  double elapsed = 0;
  while (elapsed < seconds) {
    if (loader.next(batch)) {
      result.samples += batch.n;
    } else {
      loader.start(++epoch);
    }
    elapsed = seconds_since(start);
  }
  result.samples_per_second = static_cast<double>(result.samples) / elapsed;
  result.bad_samples = loader.report().bad_images;
  return result;
}

}  // namespace dtn
