// Measurements, all taken in one process so that ratios are fair on a noisy machine.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/trace_table.h"
#include "dtn/config/train_config.h"
#include "dtn/core/device.h"
#include "dtn/core/dtype.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"
#include "dtn/dist/communicator.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Rates of matrix products with all threads, in 1e9 floating-point operations per second.
struct GemmRate {
  std::string name;
  std::int64_t m, n, k;
  double gflops;
};
// A cube of this side (0: 2048, or 8192 on a CUDA device), and the forward products of the model's
// linear layers at this batch.
std::vector<GemmRate> measure_gemms(const ModelConfig& model, std::int64_t batch, DType dtype,
                                    Device device = kCpu, std::int64_t cube = 0);
// The machine's ceiling: the best of them.
double best_rate(const std::vector<GemmRate>& rates);
// Bytes per second of a copy of so many bytes, those read and those written, in units of 1e9. Many
// times any cache.
inline constexpr std::int64_t kCopyBytes = std::int64_t{1} << 30;
double measure_copy(Device device = kCuda, std::int64_t bytes = kCopyBytes);

struct StepsToTime {
  int steps = 20, warmup = 3;
  std::int64_t cube = 0;  // see measure_gemms()
  bool trace = false;     // on a CUDA device, in one process: one more step, kernel by kernel
};

struct TrainBenchmark {
  double images_per_second = 0;       // of the median step
  double step_ms = 0;                 // median
  double gflops_per_image = 0;        // 6 x the multiply-adds of a forward pass that are computed
  double gemm_gflops = 0;             // ceiling, best before and after
  double mfu = 0;                     // gflops_per_image images_per_second / gemm_gflops
  std::int64_t peak_bytes = 0;        // of tensors and scratch
  std::int64_t allocator_misses = 0;  // in the timed steps
  // Of a job of several processes, whose rates above are those of all together. A step's sums are
  // under way for communication_ms, mostly beside the backward pass; in communication_waited_ms the
  // first process had nothing else to do, be it for the network or for a slower process. (Not known
  // where NCCL sums: 0.)
  int processes = 1;
  double communication_ms = 0, communication_waited_ms = 0;
  double communication_bytes = 0;    // that each process sends in a step
  std::vector<KernelTotal> kernels;  // of the step that was traced
};
// Optimizer steps on random images that stay in memory: the loader is measured apart. Called by all
// of `ranks`, if any.
TrainBenchmark benchmark_train(const ExperimentConfig& config, const StepsToTime& run,
                               Device device = kCpu, Communicator* ranks = nullptr,
                               const Registries& registries = standard_registries());

struct EvalBenchmark {
  double images_per_second = 0;
  double gflops_per_image = 0;  // 2 x the multiply-adds that are computed
  double gemm_gflops = 0;
  double mfu = 0;
  std::int64_t peak_bytes = 0;
};
EvalBenchmark benchmark_eval(const ExperimentConfig& config, const StepsToTime& run,
                             Device device = kCpu,
                             const Registries& registries = standard_registries());

// Samples that a loader makes in a second, into batches of at most `batch_size`, in a measurement of
// `seconds`; by as many workers as config.data has for a device.
struct LoadingRate {
  double samples_per_second = 0;
  std::int64_t samples = 0;
  std::int64_t bad_samples = 0;
};
LoadingRate measure_loading(std::shared_ptr<const SampleSource> source,
                            const ExperimentConfig& config, std::int64_t batch_size, Split split,
                            double seconds, Device device = kCpu);

struct DataBenchmark {
  double images_per_second = 0;  // decoded, augmented and batched
  std::int64_t images = 0;
  std::int64_t bad_images = 0;
  // What the stages of one image take, in microseconds of one thread: means over some of the
  // images.
  double read_us = 0, decode_us = 0, resize_us = 0, augment_us = 0, normalize_us = 0;
};
// The training images as in training, or the validation images as in evaluation.
DataBenchmark benchmark_data(const ExperimentConfig& config, double seconds,
                             Split split = Split::kTrain,
                             const DataRegistries& registries = standard_registries());

struct NormBenchmark {
  double forward_ms = 0, backward_ms = 0;  // medians
  double multiply_adds_per_element = 0;    // forward and backward; 0: few of each kind
  double gflops = 0;                       // at that count
  double gemm_gflops = 0;                  // ceiling at this precision
  // On a CUDA device: the rate of a large copy, and what part of it the forward pass reaches,
  // counting x read once and y written once.
  double copy_gbytes_per_second = 0, forward_of_copy = 0;
};
// What a normalizer is measured on.
struct NormInput {
  std::int64_t batch, tokens, channels, heads;  // x [batch, tokens, channels]
  // Unset: a square where it can be one, else a line; with norm.prefix=ln what is left over of the
  // largest square is ahead of it.
  std::optional<TokenGrid> grid{};
  // Weights (x, y, d) of the relative positions of all heads; unset: those that training starts at.
  std::optional<std::array<double, 3>> positions{};
};
// Throws ConfigError where the grid has other tokens, or the normalizer no such positions.
NormBenchmark benchmark_norm(const NormConfig& norm, const NormInput& input, DType dtype, int steps,
                             Device device = kCpu, const NormRegistry& norms = norm_registry());

}  // namespace dtn
