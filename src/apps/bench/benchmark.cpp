#include "apps/bench/benchmark.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "apps/bench/random_values.h"
#include "apps/estimate/step_profile.h"
#include "apps/estimate/timing.h"
#include "core/format.h"
#include "core/seconds_since.h"
#include "data/feed/field_buffers.h"
#include "data/feed/open_split.h"
#include "data/feed/view_samples.h"
#include "dtn/tasks/classify.h"
#include "train/learner.h"

namespace dtn {
namespace {

using Clock = std::chrono::steady_clock;

DType dtype_of(Precision precision) {
  return precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

// Formats a number for people, with the unit that its name implies.
std::string readable(const std::string& name, const BenchmarkResult& value) {
  if (!value.is_number()) return value.dump();
  constexpr std::pair<const char*, const char*> kUnits[] = {
      {"gbytes_per_second", " GB/s"}, {"images_per_second", " images/s"},
      {"_per_second", "/s"},          {"gflops_per_image", " GFLOP"},
      {"gflops", " GFLOP/s"},         {"_ms", " ms"}};
  const double number = value.get<double>();
  if (name.ends_with("bytes")) return format("%.1f MiB", number / 1048576);
  if (name == "mfu" || name.starts_with("fraction")) return format("%.1f %%", 100 * number);
  const char* unit = "";
  for (const auto& [ending, text] : kUnits) {
    if (name.ends_with(ending)) {
      unit = text;
      break;
    }
  }
  if (value.is_number_integer()) return value.dump() + unit;
  const int decimals = number >= 1000 ? 0 : number >= 10 ? 1 : 3;
  return format("%.*f", decimals, number) + unit;
}

// Writes the mean times of a number of images, in microseconds.
void write_stages(const StageSeconds& stages, std::int64_t images, BenchmarkResult& result) {
  if (images == 0) return;
  const double scale = 1e6 / static_cast<double>(images);
  result["read_us"] = stages.read * scale;
  result["decode_us"] = stages.decode * scale;
  result["resize_us"] = stages.resize * scale;
  result["augment_us"] = stages.augment * scale;
  result["normalize_us"] = stages.normalize * scale;
}

// Times the stages of images for about `seconds`. The stride kStep reaches all classes of a sorted
// data set. Damaged images are skipped. Samples that need no preparation have no stages to time.
void time_stages(const Dataset& data, const Transform& transform, std::uint64_t seed,
                 double seconds, BenchmarkResult& result) {
  constexpr std::int64_t kWarmup = 4, kStep = 7919;
  SampleWorkspace sample_workspace;
  TransformWorkspace workspace;
  StageSeconds stages;
  std::vector<float> out(static_cast<std::size_t>(transform.output_size()));
  std::int64_t images = 0;
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < kWarmup || seconds_since(start) < seconds; ++i) {
    if (i == kWarmup) {
      stages = {};
      workspace.stages = &stages;
      images = 0;
    }
    const SampleKey key{seed, 0, static_cast<std::uint64_t>(i)};
    try {
      const auto began = Clock::now();
      const Sample sample = data.load(i * kStep % data.size(), sample_workspace);
      if (!sample.ready.empty()) return;
      stages.read += seconds_since(began);
      const PreparedImage prepared =
          sample.image
              ? transform.prepare(*sample.image, key, workspace)
              : transform.decode_and_prepare(sample.encoded, sample_workspace.name, key, workspace);
      const auto ready = Clock::now();
      transform.normalize(prepared, key, out.data());
      stages.normalize += seconds_since(ready);
      ++images;
    } catch (const DataError&) {
      continue;
    }
  }
  write_stages(stages, images, result);
}

// The same for views; the stages are totals of all views of an image.
void time_stages_of_views(const ViewSamples& views, std::uint64_t seed, double seconds,
                          BenchmarkResult& result) {
  constexpr std::int64_t kWarmup = 4, kStep = 7919;
  StageSeconds stages;
  const auto workspace = views.make_timed_workspace(&stages);
  Fields fields;
  for (const FieldSpec& spec : views.host_fields()) {
    fields[spec.name] = allocate_rows(spec, 1, kCpu);
  }
  FieldRow row(fields, 0);
  std::int64_t images = 0;
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < kWarmup || seconds_since(start) < seconds; ++i) {
    if (i == kWarmup) {
      stages = {};
      images = 0;
    }
    try {
      views.make(i * kStep % views.size(), {seed, 0, static_cast<std::uint64_t>(i)}, row,
                 *workspace);
      ++images;
    } catch (const DataError&) {
      continue;
    }
  }
  write_stages(stages, images, result);
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

std::string table_line(const KernelTotal& k, double all_us) {
  return format("%-44s %7lld %12.1f %10.2f %7.1f %%\n", k.name.c_str(),
                static_cast<long long>(k.calls), k.us,
                k.calls > 0 ? k.us / static_cast<double>(k.calls) : 0.0,
                all_us > 0 ? 100 * k.us / all_us : 0.0);
}

// Balanced class weights come from a data set, which a benchmark does not read. Weights of 1 take
// the same time.
ExperimentConfig with_known_weights(ExperimentConfig config) {
  ClassWeights& weights = config.train.class_weights;
  const auto classes = static_cast<std::size_t>(std::max(1, config.model.num_classes));
  if (weights.balanced) weights = {.balanced = false, .values = std::vector<double>(classes, 1)};
  return config;
}

}  // namespace

void print_result(const BenchmarkResult& result, bool json) {
  if (json) {
    std::printf("%s\n", result.dump().c_str());
    return;
  }
  for (const auto& [key, value] : result.items()) {
    std::printf("%-26s %s\n", key.c_str(), readable(key, value).c_str());
  }
}

BenchmarkResult benchmark_train(const ExperimentConfig& asked, const StepsToTime& run,
                                Device device, Communicator& ranks, const Registries& registries,
                                std::vector<KernelTotal>& kernels) {
  const ExperimentConfig config = with_known_weights(asked);
  const int processes = ranks.size();
  if (config.train.batch_size < processes) {
    throw ConfigError(cat("train.batch_size ", config.train.batch_size,
                          " is smaller than the number of processes, ", processes));
  }
  DType dtype = dtype_of(config.train.precision);
  const auto images = static_cast<std::int64_t>(
      rows_of_rank(config.train.batch_size, ranks.rank(), processes).size());
  const std::int64_t micro = std::min(micro_batch(config.train), images);
  // All processes measure at the same time, as in a step.
  auto ceiling = [&] {
    ranks.barrier();
    Tensor rate =
        Tensor::full({1}, DType::kFloat64,
                     best_rate(measure_gemms(config.model, micro, dtype, device, run.cube)));
    ranks.all_reduce(rate);
    return *rate.data<double>();
  };
  double before = ceiling();
  release_memory(device);
  const std::unique_ptr<Task> task = make_task({config, device, registries});
  Learner learner(config, *task, device, &ranks, registries.optimizers);
  const auto make_batch = [&] { return training_batch(config, images, device, registries, *task); };
  const Fields batch = make_batch();
  reset_peak_memory(device);
  for (int i = 0; i < run.warmup; ++i) learner.step(batch, i, 1e-4);
  ranks.barrier();
  std::uint64_t misses = memory_stats(device).misses;
  const CommunicationTime communication = ranks.time();
  std::vector<double> times;
  for (int i = 0; i < run.steps; ++i) {
    times.push_back(seconds_of(device, [&] { learner.step(batch, run.warmup + i, 1e-4); }));
  }
  const CommunicationTime after = ranks.time();
  const AllocatorStats memory = memory_stats(device);
  const double step = median(times);
  if (run.trace && device != kCpu && processes == 1) {
    const Fields elsewhere = make_batch();
    kernels = trace_step(learner, elsewhere, run.warmup + run.steps);
  }
  const double images_per_second = config.train.batch_size / step;
  const double gflops_per_image = 6 * task->cost().computed_multiply_adds / 1e9;
  const double gemm_gflops = std::max(before, ceiling());
  BenchmarkResult result = {{"images_per_second", images_per_second},
                            {"step_ms", step * 1e3},
                            {"gflops_per_image", gflops_per_image},
                            {"gemm_gflops", gemm_gflops},
                            {"mfu", gflops_per_image * images_per_second / gemm_gflops},
                            {"peak_bytes", memory.peak_bytes},
                            {"allocator_misses", memory.misses - misses}};
  if (processes == 1) return result;
  const double waited_ms = 1e3 * (after.waiting - communication.waiting) / run.steps;
  const double element = config.train.reduce == ReducePrecision::kBFloat16 ? 2 : 4;
  result["processes"] = processes;
  result["communication_ms"] = 1e3 * (after.moving - communication.moving) / run.steps;
  result["communication_waited_ms"] = waited_ms;
  result["communication_share"] = waited_ms / (step * 1e3);
  result["communication_bytes"] = 2.0 * (processes - 1) / processes *
                                  static_cast<double>(learner.parameters().flat_size()) * element;
  return result;
}

BenchmarkResult benchmark_eval(const ExperimentConfig& config, const StepsToTime& run,
                               Device device, const Registries& registries) {
  if (config.model.detector.kind) {
    throw ConfigError(
        "dtn-bench eval measures classifiers and image-to-image models; dtn-eval prints the rate "
        "of "
        "a detector, and dtn-bench train measures its steps");
  }
  DType dtype = dtype_of(config.train.precision);
  std::int64_t micro = micro_batch(config.train);
  auto ceiling = [&] {
    return best_rate(measure_gemms(config.model, micro, dtype, device, run.cube));
  };
  double before = ceiling();
  const bool translates = config.task == "translate";
  const TaskSetup setup{config, device, registries};
  const std::unique_ptr<Task> task =
      translates ? make_task(setup) : std::make_unique<Classify>(setup);
  const Fields batch = translates ? synthetic_batch(config, micro, device, registries, *task)
                                  : random_batch(config.model, micro, device);
  if (dtype == DType::kBFloat16) {
    for (const Named<ParameterStore*>& store : task->stores()) store.value->enable_bfloat16();
  }
  const auto evaluate = [&] {
    Context ctx;
    ctx.mode.compute = dtype;
    task->outputs(ctx, batch).at(translates ? "output" : "logits").to(kCpu);
  };
  reset_peak_memory(device);
  for (int i = 0; i < run.warmup; ++i) evaluate();
  std::vector<double> times;
  for (int i = 0; i < run.steps; ++i) times.push_back(seconds_of(device, evaluate));
  const std::size_t peak_bytes = memory_stats(device).peak_bytes;
  const double images_per_second = static_cast<double>(micro) / median(times);
  const double gflops_per_image = 2 * task->cost().computed_multiply_adds / 1e9;
  const double gemm_gflops = std::max(before, ceiling());
  return {{"images_per_second", images_per_second},
          {"gflops_per_image", gflops_per_image},
          {"gemm_gflops", gemm_gflops},
          {"mfu", gflops_per_image * images_per_second / gemm_gflops},
          {"peak_bytes", peak_bytes}};
}

BenchmarkResult benchmark_data(const ExperimentConfig& config, double seconds, Split split,
                               const Registries& registries) {
  const std::unique_ptr<Task> task = make_task({config, kMeta, registries});
  const std::shared_ptr<const SampleSource> source = task->source(split, kCpu);
  if (!source) throw ConfigError("the config has no validation images; set data.val");
  const LoadingRate rate = measure_loading(source, config, config.train.batch_size, split, seconds);
  BenchmarkResult result = {{"images_per_second", rate.samples_per_second},
                            {"images", rate.samples},
                            {"bad_images", rate.bad_samples}};
  if (const auto* views = dynamic_cast<const ViewSamples*>(source.get())) {
    result["views_per_second"] = views->views() * rate.samples_per_second;
    time_stages_of_views(*views, config.seed, seconds / 4, result);
  } else if (const auto* images = dynamic_cast<const ImageSamples*>(source.get())) {
    time_stages(images->dataset(), images->transform(), config.seed, seconds / 4, result);
  }
  return result;
}

std::vector<KernelTotal> add_up(const std::vector<cuda::TimedLaunch>& launches) {
  std::map<std::string, KernelTotal> by_name;
  for (const cuda::TimedLaunch& launch : launches) {
    KernelTotal& total = by_name[launch.name];
    total.name = launch.name;
    ++total.calls;
    total.us += launch.microseconds;
  }
  std::vector<KernelTotal> totals;
  for (auto& [name, total] : by_name) totals.push_back(std::move(total));
  std::stable_sort(totals.begin(), totals.end(),
                   [](const KernelTotal& a, const KernelTotal& b) { return a.us > b.us; });
  return totals;
}

std::string trace_table(const std::vector<KernelTotal>& kernels, double step_us) {
  KernelTotal all{"all"};
  for (const KernelTotal& k : kernels) {
    all.calls += k.calls;
    all.us += k.us;
  }
  std::string table =
      format("%-44s %7s %12s %10s %9s\n", "kernel", "calls", "total us", "mean us", "share");
  for (const KernelTotal& k : kernels) table += table_line(k, all.us);
  table += table_line(all, all.us);
  return table + format("gaps: %.1f us of a step of %.1f us (%.1f %%)\n", step_us - all.us, step_us,
                        step_us > 0 ? 100 * (step_us - all.us) / step_us : 0.0);
}

}  // namespace dtn
