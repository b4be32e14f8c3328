#include "dtn/train/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "dtn/core/allocator.h"
#include "dtn/data/datasets.h"
#include "dtn/data/loader.h"
#include "dtn/models/complexity.h"
#include "dtn/nn/normalizer.h"
#include "dtn/train/evaluator.h"
#include "dtn/train/learner.h"
#include "kernels/gemm.h"
#include "kernels/pointwise.h"

namespace dtn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const auto& work) {
  auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Uniform in [-1, 1), of any float type.
Tensor random_tensor(const Shape& shape, DType dtype, std::uint32_t stream) {
  Tensor t = Tensor::empty(shape, DType::kFloat32);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.data<float>()[i] = 2 * philox_uniform({1, stream, 0}, static_cast<std::uint64_t>(i)) - 1;
  }
  if (dtype == DType::kFloat32) return t;
  Tensor converted = Tensor::empty(shape, dtype);
  run(cpu_queue(), Cast{t.dtype(), dtype, t.numel(), t.raw(), converted.raw()});
  return converted;
}

Batch random_batch(const ModelConfig& model, std::int64_t n) {
  Batch batch;
  batch.n = n;
  batch.images =
      random_tensor({n, model.channels, model.image_size, model.image_size}, DType::kFloat32, 1);
  batch.labels = Tensor::empty({n}, DType::kInt64);
  for (std::int64_t i = 0; i < n; ++i) {
    batch.labels.data<std::int64_t>()[i] = i % model.num_classes;
  }
  return batch;
}

double measure_gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, double seconds) {
  Tensor a = random_tensor({m, k}, dtype, 2), b = random_tensor({n, k}, dtype, 3);
  Tensor c = Tensor::empty({m, n}, dtype);
  Gemm gemm{};
  gemm.dtype = gemm.c_dtype = dtype;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.a = a.raw();
  gemm.b = b.raw();
  gemm.c = c.raw();
  gemm.lda = gemm.ldb = k;
  gemm.ldc = n;
  gemm.transpose_b = true;
  run(cpu_queue(), gemm);
  double best = 1e30, spent = 0;
  while (spent < seconds) {
    double t = seconds_of([&] { run(cpu_queue(), gemm); });
    best = std::min(best, t);
    spent += t;
  }
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / best /
         1e9;
}

DType dtype_of(Precision precision) {
  return precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

std::int64_t micro_batch(const TrainConfig& train) {
  return train.micro_batch.value_or(train.batch_size);
}

}  // namespace

std::vector<GemmRate> measure_gemms(const ModelConfig& model, std::int64_t batch, DType dtype,
                                    double seconds_each) {
  std::int64_t c = model.embed_dim, hidden = model.mlp_dim();
  std::int64_t rows = batch * (model.num_patches() + model.has_class_token());
  std::vector<GemmRate> rates = {{"cube", 2048, 2048, 2048, 0},
                                 {"qkv", rows, 3 * c, c, 0},
                                 {"proj", rows, c, c, 0},
                                 {"fc1", rows, hidden, c, 0},
                                 {"fc2", rows, c, hidden, 0}};
  for (GemmRate& r : rates) r.gflops = measure_gemm(r.m, r.n, r.k, dtype, seconds_each);
  return rates;
}

double best_rate(const std::vector<GemmRate>& rates) {
  double best = 0;
  for (const GemmRate& r : rates) best = std::max(best, r.gflops);
  return best;
}

TrainBenchmark benchmark_train(const ExperimentConfig& config, int steps, int warmup) {
  TrainBenchmark result;
  DType dtype = dtype_of(config.train.precision);
  std::int64_t micro = micro_batch(config.train);
  double before = best_rate(measure_gemms(config.model, micro, dtype));
  release_cached_memory();
  Learner learner(config);
  Batch batch = random_batch(config.model, config.train.batch_size);
  reset_peak_bytes();
  for (int i = 0; i < warmup; ++i) learner.step(batch, i, 1e-4);
  std::uint64_t misses = allocator_stats().misses;
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    times.push_back(seconds_of([&] { learner.step(batch, warmup + i, 1e-4); }));
  }
  result.allocator_misses = static_cast<std::int64_t>(allocator_stats().misses - misses);
  result.peak_bytes = static_cast<std::int64_t>(allocator_stats().peak_bytes);
  double step = median(times);
  result.step_ms = step * 1e3;
  result.images_per_second = config.train.batch_size / step;
  result.gflops_per_image = 6 * complexity_of(config.model).multiply_adds / 1e9;
  result.gemm_gflops = std::max(before, best_rate(measure_gemms(config.model, micro, dtype)));
  result.mfu = result.gflops_per_image * result.images_per_second / result.gemm_gflops;
  return result;
}

EvalBenchmark benchmark_eval(const ExperimentConfig& config, int steps, int warmup) {
  EvalBenchmark result;
  DType dtype = dtype_of(config.train.precision);
  std::int64_t micro = micro_batch(config.train);
  double before = best_rate(measure_gemms(config.model, micro, dtype));
  VisionTransformer model(config.model, config.seed);
  Batch batch = random_batch(config.model, micro);
  reset_peak_bytes();
  for (int i = 0; i < warmup; ++i) predict(model, batch.images, dtype);
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    times.push_back(seconds_of([&] { predict(model, batch.images, dtype); }));
  }
  result.peak_bytes = static_cast<std::int64_t>(allocator_stats().peak_bytes);
  result.images_per_second = static_cast<double>(micro) / median(times);
  result.gflops_per_image = 2 * complexity_of(config.model).multiply_adds / 1e9;
  result.gemm_gflops = std::max(before, best_rate(measure_gemms(config.model, micro, dtype)));
  result.mfu = result.gflops_per_image * result.images_per_second / result.gemm_gflops;
  return result;
}

DataBenchmark benchmark_data(const ExperimentConfig& config, double seconds) {
  const ModelConfig& m = config.model;
  std::shared_ptr<const Dataset> data = open_dataset(config.data, m, Split::kTrain, config.seed);
  LoaderOptions options;
  options.batch_size = std::min<std::int64_t>(config.train.batch_size, data->size());
  options.shuffle = config.data.shuffle;
  options.seed = config.seed;
  options.workers = config.data.workers;
  options.drop_last = true;
  options.max_bad_images = config.data.max_bad_images;
  Loader loader(data, Transform(config.data, config.augment, m.image_size, m.channels, true),
                options);
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
  return result;
}

NormBenchmark benchmark_norm(const NormConfig& norm, std::int64_t batch, std::int64_t tokens,
                             std::int64_t channels, std::int64_t heads, DType dtype, int steps) {
  ParameterStore store;
  auto layer = make_normalizer(norm, {channels, heads, 1e-5}, store, "norm");
  store.allocate(accumulator_of(dtype));
  store.initialize(0);
  auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(tokens))));
  TokenGrid grid = side * side == tokens ? TokenGrid{side, side} : TokenGrid{1, tokens};
  Tensor x = random_tensor({batch, tokens, channels}, dtype, 4);
  Tensor dy = random_tensor({batch, tokens, channels}, dtype, 5);

  NormBenchmark result;
  DType rate_type = dtype == DType::kFloat64 ? DType::kFloat32 : dtype;
  double before = measure_gemm(2048, 2048, 2048, rate_type, 0.3);
  std::vector<double> forward, backward;
  for (int i = 0; i < steps + 3; ++i) {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    ctx.training = true;
    Variable input(x, true), y;
    double f = seconds_of([&] { y = layer->forward(ctx, input, grid); });
    double b = seconds_of([&] { tape.backward(y, dy); });
    if (i < 3) continue;  // warm-up
    forward.push_back(f * 1e3);
    backward.push_back(b * 1e3);
  }
  result.forward_ms = median(forward);
  result.backward_ms = median(backward);
  // Forward: two passes over x and x^2. Backward: the row passes again, the transposed passes, and
  // the gradient of both factors of P, each for x and x^2: seven passes-for-two in all.
  double elements = static_cast<double>(batch * tokens * channels);
  result.multiply_adds_per_element =
      3.5 * layer->multiply_adds(grid) / static_cast<double>(tokens * channels);
  result.gflops = 2 * result.multiply_adds_per_element * elements /
                  ((result.forward_ms + result.backward_ms) * 1e6);
  result.gemm_gflops = std::max(before, measure_gemm(2048, 2048, 2048, rate_type, 0.3));
  return result;
}

}  // namespace dtn
