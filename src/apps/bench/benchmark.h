// Benchmarks. All measurements run in one process, so that ratios are fair on a noisy machine.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/trace_table.h"
#include "dtn/config/train_config.h"
#include "dtn/core/device.h"
#include "dtn/core/dtype.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"
#include "dtn/dist/communicator.h"
#include "dtn/tasks/registries.h"

namespace dtn {

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

struct StepsToTime {
  int steps = 20, warmup = 3;
  std::int64_t cube = 0;  // see measure_gemms()
  bool trace = false;     // CUDA device, one process: one more step, traced by kernel
};

struct TrainBenchmark {
  double images_per_second = 0;       // of the median step
  double step_ms = 0;                 // median
  double gflops_per_image = 0;        // 6 x the computed multiply-adds of a forward pass
  double gemm_gflops = 0;             // ceiling, best before and after
  double mfu = 0;                     // gflops_per_image images_per_second / gemm_gflops
  std::int64_t peak_bytes = 0;        // of tensors and scratch memory
  std::int64_t allocator_misses = 0;  // in the timed steps
  // Fields of a job of several processes; the rates above are those of all processes together. The
  // reductions of a step take communication_ms, mostly during the backward pass. For
  // communication_waited_ms the first process waits for the network or for a slower process. (Both
  // are 0 with NCCL, where these times are not known.)
  int processes = 1;
  double communication_ms = 0, communication_waited_ms = 0;
  double communication_bytes = 0;    // that each process sends per step
  std::vector<KernelTotal> kernels;  // of the traced step
};
// Times optimizer steps on random images that stay in memory; the loader has a benchmark of its
// own. All processes of `ranks`, if any, must call it.
TrainBenchmark benchmark_train(const ExperimentConfig& config, const StepsToTime& run,
                               Device device = kCpu, Communicator* ranks = nullptr,
                               const Registries& registries = standard_registries());

struct EvalBenchmark {
  double images_per_second = 0;
  double gflops_per_image = 0;  // 2 x the computed multiply-adds
  double gemm_gflops = 0;
  double mfu = 0;
  std::int64_t peak_bytes = 0;
};
EvalBenchmark benchmark_eval(const ExperimentConfig& config, const StepsToTime& run,
                             Device device = kCpu,
                             const Registries& registries = standard_registries());

struct DataBenchmark {
  double images_per_second = 0;  // decoded, augmented and batched
  std::int64_t images = 0;
  std::int64_t bad_images = 0;
  // Stage times per image, in microseconds of one thread: means over some of the images.
  double read_us = 0, decode_us = 0, resize_us = 0, augment_us = 0, normalize_us = 0;
};
// Prepares the training images as in training, or the validation images as in evaluation.
DataBenchmark benchmark_data(const ExperimentConfig& config, double seconds,
                             Split split = Split::kTrain,
                             const DataRegistries& registries = standard_registries());

struct NormBenchmark {
  double forward_ms = 0, backward_ms = 0;  // medians
  double multiply_adds_per_element = 0;    // forward and backward; 0: negligible
  double gflops = 0;                       // from multiply_adds_per_element
  double gemm_gflops = 0;                  // ceiling at this precision
  // On a CUDA device: the rate of a large copy, and the fraction of it that the forward pass
  // reaches, with x read once and y written once.
  double copy_gbytes_per_second = 0, forward_of_copy = 0;
};
// Input of a normalizer benchmark.
struct NormInput {
  std::int64_t batch, tokens, channels, heads;  // x [batch, tokens, channels]
  // Unset: a square if possible, else a sequence. With norm.prefix=ln: the largest square, with the
  // remaining tokens as its prefix.
  std::optional<TokenGrid> grid{};
  // Weights (x, y, d) of the relative positions of all heads; unset: their initial values.
  std::optional<std::array<double, 3>> positions{};
};
// Throws ConfigError for a grid with another number of tokens, or positions that cannot be set.
NormBenchmark benchmark_norm(const NormConfig& norm, const NormInput& input, DType dtype, int steps,
                             Device device = kCpu, const NormRegistry& norms = norm_registry());

}  // namespace dtn
