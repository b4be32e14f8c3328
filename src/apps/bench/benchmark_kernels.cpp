#include "apps/bench/benchmark_kernels.h"

#include <algorithm>
#include <cmath>
#include <list>

#include "apps/bench/benchmark.h"
#include "apps/bench/kernel_cases.h"
#include "apps/estimate/run_size.h"
#include "apps/estimate/timing.h"
#include "core/cuda_device.h"

namespace dtn {
namespace {

constexpr std::int64_t kMinCopy = std::int64_t{1} << 20;
constexpr double kMaxSets = 256;  // sets of inputs; bounds the time to fill them

std::vector<KernelCase> cases_like(const std::string& text, const ExperimentConfig& config,
                                   Device device) {
  std::vector<KernelCase> cases;
  std::string names;
  for (KernelCase& c : kernel_cases(config, device)) {
    names += cat(names.empty() ? "" : ", ", c.name);
    if (c.name.find(text) != std::string::npos) cases.push_back(std::move(c));
  }
  if (!cases.empty()) return cases;
  throw ConfigError(
      cat("--only ", text, ": no kernel has this text in its name; the kernels are ", names));
}

// Returns the median seconds of `work`.
double seconds_of_runs(Device device, int steps, const std::function<void()>& work) {
  if (device != kCpu) return replayed_seconds(steps, work);
  work();
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) times.push_back(seconds_of(device, work));
  return median(times);
}

KernelTime time_kernel(const KernelCase& kernel, const KernelBenchmarkOptions& options,
                       Device device, RandomValues& values) {
  std::list<KernelTensors> sets;
  std::vector<KernelCall> calls;
  const auto add_set = [&] { calls.push_back(kernel.prepare(sets.emplace_back(device, values))); };
  add_set();
  KernelTime time{kernel.name, kernel.shape};
  time.bytes = sets.front().bytes();
  time.flops = 2 * calls.front().multiply_adds;
  const double wanted = std::ceil(static_cast<double>(options.working_set) / time.bytes);
  while (static_cast<double>(sets.size()) < std::min(wanted, kMaxSets)) add_set();
  const std::size_t rounds = (static_cast<std::size_t>(options.launches) - 1) / sets.size() + 1;
  const double seconds = seconds_of_runs(device, options.steps, [&] {
    for (std::size_t i = 0; i < rounds; ++i) {
      for (const KernelCall& call : calls) call.run();
    }
  });
  time.us = 1e6 * seconds / static_cast<double>(rounds * calls.size());
  return time;
}

}  // namespace

KernelBenchmark benchmark_kernels(const ExperimentConfig& config,
                                  const KernelBenchmarkOptions& options, Device device,
                                  const std::function<void(const KernelTime&)>& report) {
  const std::vector<KernelCase> cases = cases_like(options.only, config, device);
  cuda::allow_tf32(config.train.precision == Precision::kTf32);
  const DType dtype =
      config.train.precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  KernelBenchmark result;
  result.copy_gbytes_per_second = measure_copy(device, std::max(4 * options.working_set, kMinCopy));
  result.gemm_gflops = best_rate(
      measure_gemms(config.model, micro_batch(config.train), dtype, device, options.cube));
  RandomValues values;
  for (const KernelCase& kernel : cases) {
    KernelTime time{kernel.name, kernel.shape};
    try {
      time = time_kernel(kernel, options, device, values);
      time.floor_us = 1e-3 * std::max(time.bytes / result.copy_gbytes_per_second,
                                      time.flops / result.gemm_gflops);
      time.ratio = time.us / time.floor_us;
    } catch (const std::exception& e) {
      time.error = e.what();
      ++result.failed;
    }
    ++result.kernels;
    report(time);
    device == kCpu ? release_cached_memory() : cuda::release_cached_memory();
  }
  return result;
}

}  // namespace dtn
