// Benchmarks. All measurements run in one process, so that ratios are fair on a noisy machine.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/document.h"
#include "dtn/config/train_config.h"
#include "dtn/core/device.h"
#include "dtn/core/dtype.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"
#include "dtn/dist/communicator.h"
#include "dtn/io/safetensors.h"
#include "dtn/nn/normalizer.h"
#include "dtn/tasks/registries.h"
#include "kernels/cuda/trace.h"

namespace dtn {

// Results by name, in the order of the output.
using BenchmarkResult = nlohmann::ordered_json;
// Prints one object per measurement: JSON on one line, or a column of names and values.
void print_result(const BenchmarkResult& result, bool json);

// Rate of a matrix product with all threads, in 1e9 floating-point operations per second.
struct GemmRate {
  std::string name;
  std::int64_t m, n, k;
  double gflops;
};
// Measures a cube of side `cube` (0: 2048, or 8192 on a CUDA device), and the forward products of
// the model's linear layers at this batch size.
std::vector<GemmRate> measure_gemms(const ModelConfig& model, std::int64_t batch, DType dtype,
                                    Device device = kCpu, std::int64_t cube = 0);
// Peak rate of the machine: the best of `rates`.
double best_rate(const std::vector<GemmRate>& rates);
// Returns the rate of a copy of `bytes` bytes, in 1e9 bytes per second; bytes read and bytes
// written both count. The default size is many times the size of any cache.
inline constexpr std::int64_t kCopyBytes = std::int64_t{1} << 30;
double measure_copy(Device device = kCuda, std::int64_t bytes = kCopyBytes);

// Returns the items whose names contain `text`, for --only. If there are none, throws a ConfigError
// that lists all names, each after `before` or `between`.
template <class Item>
std::vector<Item> chosen_by_name(std::vector<Item> items, const std::string& text, const char* what,
                                 const char* before, const char* between) {
  const std::string names = config::join(items, between, &Item::name);
  std::erase_if(items, [&](const Item& item) { return item.name.find(text) == text.npos; });
  if (!items.empty()) return items;
  throw ConfigError(cat("--only ", text, ": no ", what, " has this text in its name; the ", what,
                        "s are", before, names));
}

// Time of a training step by kernel, summed from a trace.
struct KernelTotal {
  std::string name;
  std::int64_t calls = 0;
  double us = 0;
};

// Sums the launches by kernel; the kernel with the longest time comes first.
std::vector<KernelTotal> add_up(const std::vector<cuda::TimedLaunch>& launches);

// Returns a table with a line for each kernel and its share, a line for the sum, and the difference
// to `step_us`, the time of a step without a trace (possibly replayed as one graph).
std::string trace_table(const std::vector<KernelTotal>& kernels, double step_us);

struct StepsToTime {
  int steps = 20, warmup = 3;
  std::int64_t cube = 0;  // see measure_gemms()
  bool trace = false;     // CUDA device, one process: one more step, traced by kernel
};

// Times optimizer steps on random images that stay in memory; the loader has a benchmark of its
// own. All processes of `ranks`, if any, must call it. `kernels` receives those of the traced step.
//
//   images_per_second    of the median step
//   step_ms              median
//   gflops_per_image     6 x the computed multiply-adds of a forward pass
//   gemm_gflops          ceiling, best before and after
//   mfu                  gflops_per_image images_per_second / gemm_gflops
//   peak_bytes           of tensors and scratch memory
//   allocator_misses     in the timed steps
//
// In a job of several processes the rates are those of all processes together, and follow
//
//   processes, communication_ms, communication_waited_ms, communication_share, communication_bytes
//
// The reductions of a step take communication_ms, mostly during the backward pass. For
// communication_waited_ms the first process waits for the network or for a slower process. (Both
// are 0 with NCCL, where these times are not known.) Each process sends communication_bytes per
// step.
BenchmarkResult benchmark_train(const ExperimentConfig& config, const StepsToTime& run,
                                Device device, Communicator& ranks, const Registries& registries,
                                std::vector<KernelTotal>& kernels);

// Times forward passes. Like benchmark_train(), without the step time, the
// misses of the allocator and the processes; 2 x the computed multiply-adds count.
BenchmarkResult benchmark_eval(const ExperimentConfig& config, const StepsToTime& run,
                               Device device, const Registries& registries);

// Prepares the training samples of the config's task, or its validation samples. Stage times are
// per image, in microseconds of one thread: means over some of the images. Samples
// that need no preparation have none, nor do images of the task diffusion. If augment.preset makes
// several views of each training image, these are prepared, and views_per_second is their rate.
// Throws ConfigError without such samples.
BenchmarkResult benchmark_data(const ExperimentConfig& config, double seconds, Split split,
                               const Registries& registries);

// Input of a normalizer benchmark.
struct NormInput {
  std::int64_t batch, tokens, channels, heads;  // x [batch, tokens, channels]
  // Unset: a square if possible, else a sequence. With norm.prefix=ln: the largest square, with the
  // remaining tokens as its prefix.
  std::optional<TokenGrid> grid{};
  // Weights (x, y, d) of the relative positions of all heads; unset: their initial values.
  std::optional<std::array<double, 3>> positions{};
};
// Median times of a forward and a backward pass, and the rates that follow. forward_of_copy, on a
// CUDA device, is the fraction of a large copy's rate that the forward pass reaches, with x read
// once and y written once. Throws ConfigError for a grid with another number of tokens, or
// positions that cannot be set.
BenchmarkResult benchmark_norm(const NormConfig& norm, const NormInput& input, DType dtype,
                               int steps, Device device, const NormRegistry& norms);

// Runs one normalizer once on given tensors, for a comparison with another implementation.
struct NormProbe {
  NormConfig norm;
  std::int64_t heads;
  std::optional<TokenGrid> grid;  // unset: a square if T is one, else a sequence
  double eps = kDefaultNormEps;
  DType dtype = DType::kFloat32;  // of activations
  bool training = true;           // use batch statistics even if there are running ones
};

// `inputs` holds x [B, T, C], dy [B, T, C], and optionally parameters and buffers by name (weight,
// bias, running_mean, ...); the others keep their initial values. The result holds y, dx, the
// gradient of each parameter as d<name>, and each buffer by name with its value after the pass, all
// in float32 (float64 for float64). Throws DataError if x or dy is missing, if a shape is wrong, or
// if a name is unknown.
NamedTensors probe_norm(const NormProbe& probe, const NamedTensors& inputs, Device device = kCpu,
                        const NormRegistry& norms = norm_registry());

}  // namespace dtn
