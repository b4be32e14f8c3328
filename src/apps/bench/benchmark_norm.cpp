// Benchmark of a single normalizer.
#include <cmath>

#include "apps/bench/benchmark.h"
#include "apps/bench/random_values.h"
#include "apps/estimate/timing.h"
#include "core/cuda_device.h"
#include "core/format.h"
#include "core/meta_device.h"
#include "dtn/nn/conditional_norm.h"
#include "dtn/nn/normalizer.h"
#include "kernels/dtn_sequence/dtn_sequence.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

struct Subject {
  ParameterStore store;
  std::unique_ptr<Normalizer> layer;
  TokenGrid grid;
  std::vector<Tensor> x, dy;
  std::shared_ptr<const Condition> condition;  // read by conditional normalizers

  Subject(const NormConfig& norm, const NormShape& shape, DType dtype, Device device,
          const NormRegistry& norms)
      : layer(make_normalizer(norm, shape, {store, "norm", &norms})), grid(shape.grid) {
    store.allocate(accumulator_of(dtype), device);
    store.initialize(0);
  }
};

// Forward and backward pass over one input.
struct Pass {
  Tape tape;
  Variable y;

  void forward(Subject& s, const Tensor& x) {
    Context ctx;
    ctx.tape = &tape;
    ctx.mode.training = true;
    ctx.condition = s.condition;
    y = s.layer->forward(ctx, Variable(x, true), s.grid);
  }
  void backward(const Tensor& dy) { tape.backward(y, dy); }
};

struct NormTimes {
  double forward_ms = 0, backward_ms = 0;
  double copy_gbytes_per_second = 0, forward_of_copy = 0;  // on a CUDA device
};

void measure_on_host(Subject& s, int steps, NormTimes& result) {
  std::vector<double> forward, backward;
  for (int i = 0; i < steps + 3; ++i) {
    Pass pass;
    double f = seconds_of(kCpu, [&] { pass.forward(s, s.x[0]); });
    double b = seconds_of(kCpu, [&] { pass.backward(s.dy[0]); });
    if (i < 3) continue;  // warm-up
    forward.push_back(f * 1e3);
    backward.push_back(b * 1e3);
  }
  result.forward_ms = median(forward);
  result.backward_ms = median(backward);
}

// Cycles through several inputs, so that no input is found in the cache.
void measure_on_device(Subject& s, int steps, NormTimes& result) {
  auto count = static_cast<double>(s.x.size());
  double forward = 1e3 * replayed_seconds(steps, [&] {
                     for (const Tensor& x : s.x) Pass().forward(s, x);
                   });
  double both = 1e3 * replayed_seconds(steps, [&] {
                  for (std::size_t i = 0; i < s.x.size(); ++i) {
                    Pass pass;
                    pass.forward(s, s.x[i]);
                    pass.backward(s.dy[i]);
                  }
                });
  result.forward_ms = forward / count;
  result.backward_ms = (both - forward) / count;
  result.copy_gbytes_per_second = measure_copy();
  double bytes = 2 * static_cast<double>(s.x[0].nbytes());
  result.forward_of_copy = bytes / (result.forward_ms * 1e6) / result.copy_gbytes_per_second;
}

TokenGrid grid_of(const NormConfig& norm, const NormInput& input) {
  const std::int64_t tokens = input.tokens;
  if (input.grid) {
    TokenGrid grid = *input.grid;
    if (norm.takes_prefix()) grid.prefix = tokens - grid.tokens();
    if (grid.prefix < 0 || grid.tokens() != tokens) {
      throw ConfigError(cat("a grid of ", input.grid->height, " x ", input.grid->width,
                            " does not have ", counted(tokens, "tokens")));
    }
    return grid;
  }
  if (!norm.takes_prefix()) return square_or_sequence(tokens);
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(tokens)));
  return {side, side, tokens - side * side};
}

// Sets the position weights (x, y, d) of all heads.
void set_positions(ParameterStore& store, const std::array<double, 3>& weights) {
  const Parameter* position = store.find("norm.pos_proj.weight");
  if (!position) throw ConfigError("this normalizer has no relative positions to set");
  Tensor values = Tensor::empty(position->shape, DType::kFloat32);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.data<float>()[i] = static_cast<float>(weights[static_cast<std::size_t>(i % 3)]);
  }
  Tensor converted = Tensor::empty(position->shape, position->variable.dtype());
  run(cpu_queue(),
      Cast{DType::kFloat32, converted.dtype(), values.numel(), values.raw(), converted.raw()});
  Tensor parameter = position->variable.value();
  parameter.copy_from(converted);
}

// Vectors of `shape.condition` numbers for the samples.
std::shared_ptr<const Condition> some_condition(std::int64_t samples, const NormShape& shape,
                                                DType dtype, Device device) {
  const Tensor vectors =
      Tensor::full({samples, shape.condition}, accumulator_of(dtype), 0.5).to(device);
  return std::make_shared<const Condition>(Condition::of_vector(Variable(vectors, true)));
}

// Multiply-adds of a forward and a backward pass over one sample.
double multiply_adds_of_sample(const NormConfig& norm, const NormShape& shape, DType dtype,
                               const NormRegistry& norms) {
  Subject s(norm, shape, dtype, kMeta, norms);
  s.condition = some_condition(1, shape, dtype, kMeta);
  const Tensor x = Tensor::empty({1, shape.grid.tokens(), shape.channels}, dtype, kMeta);
  meta_queue().take_work();
  Pass pass;
  pass.forward(s, x);
  pass.backward(x);
  return meta_queue().take_work().multiply_adds;
}

}  // namespace

BenchmarkResult benchmark_norm(const NormConfig& norm, const NormInput& input, DType dtype,
                               int steps, Device device, const NormRegistry& norms) {
  const auto [batch, tokens, channels, heads, given, positions] = input;
  const TokenGrid grid = grid_of(norm, input);
  NormShape norm_shape{channels, heads, norm.eps.value_or(kDefaultNormEps), grid};
  norm_shape.condition = channels;
  Subject s(norm, norm_shape, dtype, device, norms);
  s.condition = some_condition(batch, norm_shape, dtype, device);
  if (positions) set_positions(s.store, *positions);
  RandomValues values;
  for (int i = 0; i < (device == kCpu ? 1 : 4); ++i) {
    s.x.push_back(values.tensor({batch, tokens, channels}, dtype, device));
    s.dy.push_back(values.tensor({batch, tokens, channels}, dtype, device));
  }

  NormTimes times;
  DType rate_type = dtype == DType::kFloat64 ? DType::kFloat32 : dtype;
  ModelConfig shape;
  shape.embed_dim = channels;
  shape.num_heads = heads;
  auto ceiling = [&] { return measure_gemms(shape, 1, rate_type, device)[0].gflops; };
  double before = ceiling();
  device == kCpu ? measure_on_host(s, steps, times) : measure_on_device(s, steps, times);
  double elements = static_cast<double>(batch * tokens * channels);
  double multiply_adds_per_element = multiply_adds_of_sample(norm, norm_shape, dtype, norms) /
                                     static_cast<double>(tokens * channels);
  // Both moments, their recomputation, the backward pass, and the gradient of the weights.
  if (positions && grid.height == 1) {
    multiply_adds_per_element = 8 * dtn_sequence_taps((*positions)[2], grid.width);
  }
  const double gemm_gflops = std::max(before, ceiling());
  BenchmarkResult result = {{"forward_ms", times.forward_ms},
                            {"backward_ms", times.backward_ms},
                            {"gemm_gflops", gemm_gflops}};
  if (times.copy_gbytes_per_second > 0) {
    result["copy_gbytes_per_second"] = times.copy_gbytes_per_second;
    result["forward_of_copy"] = times.forward_of_copy;
  }
  if (multiply_adds_per_element > 0) {
    const double gflops =
        2 * multiply_adds_per_element * elements / ((times.forward_ms + times.backward_ms) * 1e6);
    result["multiply_adds_per_element"] = multiply_adds_per_element;
    result["gflops"] = gflops;
    result["fraction_of_gemm"] = gflops / gemm_gflops;
  }
  return result;
}

}  // namespace dtn
