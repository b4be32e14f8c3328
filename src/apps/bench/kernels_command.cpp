#include "apps/bench/kernels_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <list>

#include "apps/bench/benchmark.h"
#include "apps/bench/kernel_cases.h"
#include "apps/common/program.h"
#include "apps/estimate/run_size.h"
#include "apps/estimate/timing.h"
#include "core/cuda_device.h"

namespace dtn::app {
namespace {

struct KernelTime {
  std::string kernel, shape;
  double us = 0;
  double bytes = 0;  // each input read once and each output written once
  double flops = 0;  // twice the multiply-adds; 0 if they are few per element
  // Lower bound: the time of the bytes at the copy rate or of the flops at gemm rate, the longer.
  double floor_us = 0;
  double ratio = 0;        // us / floor_us
  std::string error = {};  // error message; the other numbers are then void
};

constexpr std::int64_t kMinCopy = std::int64_t{1} << 20;
constexpr double kMaxSets = 256;  // sets of inputs; bounds the time to fill them

// Returns the median seconds of `work`.
double seconds_of_runs(Device device, int steps, const std::function<void()>& work) {
  if (device != kCpu) return replayed_seconds(steps, work);
  work();
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) times.push_back(seconds_of(device, work));
  return median(times);
}

KernelTime time_kernel(const KernelCase& kernel, const KernelsBenchCommand& options, Device device,
                       RandomValues& values) {
  std::list<KernelTensors> sets;
  std::vector<KernelCall> calls;
  const auto add_set = [&] { calls.push_back(kernel.prepare(sets.emplace_back(device, values))); };
  add_set();
  KernelTime time{kernel.name, kernel.shape};
  time.bytes = sets.front().bytes();
  time.flops = 2 * calls.front().multiply_adds;
  const double wanted = std::ceil(static_cast<double>(options.working_set_mib << 20) / time.bytes);
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

BenchmarkResult kernel_json(const KernelTime& k) {
  if (!k.error.empty()) return {{"kernel", k.kernel}, {"error", k.error}};
  return {{"kernel", k.kernel}, {"shape", k.shape},       {"us", k.us},      {"bytes", k.bytes},
          {"flops", k.flops},   {"floor_us", k.floor_us}, {"ratio", k.ratio}};
}

// Prints a line of the table, and the heading before the first line.
void print_kernel(const KernelTime& k, bool first) {
  if (first) {
    std::printf("%-20s %-22s %11s %10s %10s %11s %7s\n", "kernel", "shape", "us", "MB", "GFLOP",
                "floor us", "ratio");
  }
  if (!k.error.empty()) {
    std::printf("%-20s %s\n", k.kernel.c_str(), k.error.c_str());
  } else {
    std::printf("%-20s %-22s %11.2f %10.3f %10.3f %11.2f %7.2f\n", k.kernel.c_str(),
                k.shape.c_str(), k.us, k.bytes / 1e6, k.flops / 1e9, k.floor_us, k.ratio);
  }
}

}  // namespace

void KernelsBenchCommand::add_to(CLI::App& app) {
  app.add_option("--only", only, "kernels whose names contain this text (default: all)");
  add_count(app, "--steps", steps,
            "number of timed replays of a kernel's graph; the result is their median");
  add_count(app, "--launches", launches, "minimum number of launches in a graph");
  add_defaulted(app, "--working-set", working_set_mib,
                "MiB of inputs and outputs that the launches cycle through, to exceed the cache; "
                "0: all launches use the same")
      ->check(non_negative());
}

int KernelsBenchCommand::run(const ExperimentConfig& config, Device device, bool json,
                             std::int64_t cube) const {
  const std::vector<KernelCase> cases =
      chosen_by_name(kernel_cases(config, device), only, "kernel", " ", ", ");
  cuda::allow_tf32(config.train.precision == Precision::kTf32);
  const DType dtype =
      config.train.precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  const double copy_gbytes_per_second =
      measure_copy(device, std::max(4 * (working_set_mib << 20), kMinCopy));
  const double gemm_gflops =
      best_rate(measure_gemms(config.model, micro_batch(config.train), dtype, device, cube));
  RandomValues values;
  int failed = 0;
  for (const KernelCase& kernel : cases) {
    KernelTime time{kernel.name, kernel.shape};
    try {
      time = time_kernel(kernel, *this, device, values);
      time.floor_us =
          1e-3 * std::max(time.bytes / copy_gbytes_per_second, time.flops / gemm_gflops);
      time.ratio = time.us / time.floor_us;
    } catch (const std::exception& e) {
      time.error = e.what();
      ++failed;
    }
    if (json) {
      std::printf("%s\n", kernel_json(time).dump().c_str());
    } else {
      print_kernel(time, &kernel == &cases.front());
    }
    std::fflush(stdout);
    release_memory(device);
  }
  print_result({{"copy_gbytes_per_second", copy_gbytes_per_second},
                {"gemm_gflops", gemm_gflops},
                {"kernels", cases.size()}},
               json);
  return failed == 0 ? kExitDone : kExitFailed;
}

}  // namespace dtn::app
