// Optimizer updates. They are limited by memory bandwidth, so each is one pass over the buffers.
// See optimizer.h for the formulas; the order of operations is PyTorch's.
#include "kernels/optimizer/optimizer.h"

#include <cstring>

#include "dtn/core/parallel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "kernels/optimizer/optimizer_factors.h"

namespace dtn::DTN_ISA {
namespace {

// Elements per chunk, a multiple of every vector width. Elementwise results do not depend on it.
// The sum of squares does, so the value is part of that result's definition.
constexpr std::int64_t kChunk = 1 << 16;

// Returns the sum of the squares of [0, n), in float64, from four interleaved sums.
double sum_squares_range(const float* x, std::int64_t n) {
  using VecD = Vec<double>;
  constexpr int lanes = kLanes<double>;
  typedef float HalfF __attribute__((vector_size(kVectorBytes / 2)));
  auto upcast = [](const float* p) {
    HalfF h;
    std::memcpy(&h, p, sizeof h);
    return __builtin_convertvector(h, VecD);
  };
  VecD sums[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    for (int k = 0; k < 4; ++k) {
      VecD v = upcast(x + i + k * lanes);
      sums[k] = sums[k] + v * v;
    }
  }
  double sum = reduce_add((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace

void run(CpuQueue&, const PrepareUpdate& args) { prepare_update(args); }

void run(CpuQueue&, const AdamWStep& args) {
  const AdamWFactors f = adamw_factors(args);
  if (!f.apply) return;
  parallel_ranges(args.count, kChunk, [=, &args](std::int64_t begin, std::int64_t end) {
    float *param = args.param + begin, *m = args.m + begin, *v = args.v + begin;
    const float* grad = args.grad + begin;
    bfloat16* copy = args.param_bf16 ? args.param_bf16 + begin : nullptr;
    for_each_vector<float>(end - begin, [=](std::int64_t i, auto count) {
      VecF g = load_n(grad + i, count) * f.grad_scale;
      VecF p = load_n(param + i, count) * f.decay;
      VecF new_m = load_n(m + i, count) * f.beta1 + f.rest1 * g;
      VecF new_v = load_n(v + i, count) * f.beta2 + f.rest2 * g * g;
      VecF denominator = sqrt(new_v) / f.root_correction2 + f.eps;
      p = p + f.step * new_m / denominator;
      store_n(m + i, new_m, count);
      store_n(v + i, new_v, count);
      store_n(param + i, p, count);
      if (copy) store_n(copy + i, p, count);
    });
  });
}

void run(CpuQueue&, const SgdStep& args) {
  const SgdFactors f = sgd_factors(args);
  if (!f.apply) return;
  const bool keep = args.momentum != 0, nesterov = args.nesterov;
  parallel_ranges(args.count, kChunk, [=, &args](std::int64_t begin, std::int64_t end) {
    float* param = args.param + begin;
    float* buffer = keep ? args.momentum_buffer + begin : nullptr;
    const float* grad = args.grad + begin;
    bfloat16* copy = args.param_bf16 ? args.param_bf16 + begin : nullptr;
    for_each_vector<float>(end - begin, [=](std::int64_t i, auto count) {
      VecF p = load_n(param + i, count);
      VecF g = load_n(grad + i, count) * f.grad_scale + f.decay * p;
      VecF move = g;
      if (keep) {
        if (!f.first) move = f.momentum * load_n(buffer + i, count) + g;
        store_n(buffer + i, move, count);
        if (nesterov) move = f.momentum * move + g;
      }
      p = p + f.step * move;
      store_n(param + i, p, count);
      if (copy) store_n(copy + i, p, count);
    });
  });
}

void run(CpuQueue&, const LionStep& args) {
  const LionFactors f = lion_factors(args);
  if (!f.apply) return;
  parallel_ranges(args.count, kChunk, [=, &args](std::int64_t begin, std::int64_t end) {
    float *param = args.param + begin, *m = args.m + begin;
    const float* grad = args.grad + begin;
    bfloat16* copy = args.param_bf16 ? args.param_bf16 + begin : nullptr;
    for_each_vector<float>(end - begin, [=](std::int64_t i, auto count) {
      const VecF zero{}, step = broadcast(f.step);
      VecF g = load_n(grad + i, count) * f.grad_scale;
      VecF old_m = load_n(m + i, count);
      VecF direction = old_m * f.beta1 + f.rest1 * g;
      VecF p = load_n(param + i, count) * f.decay;
      p = p + (direction > zero ? step : direction < zero ? -step : zero);
      store_n(m + i, old_m * f.beta2 + f.rest2 * g, count);
      store_n(param + i, p, count);
      if (copy) store_n(copy + i, p, count);
    });
  });
}

void run(CpuQueue&, const EmaStep& args) {
  const EmaFactors f = ema_factors(args);
  if (!f.apply) return;
  parallel_ranges(args.count, kChunk, [=, &args](std::int64_t begin, std::int64_t end) {
    float* average = args.average + begin;
    const float* param = args.param + begin;
    for_each_vector<float>(end - begin, [=](std::int64_t i, auto count) {
      VecF next = f.decay * load_n(average + i, count) + f.rest * load_n(param + i, count);
      store_n(average + i, next, count);
    });
  });
}

void run(CpuQueue&, const CommitBuffers& args) {
  const bool applied = is_applied(args.state);
  std::memcpy(applied ? args.value : args.next, applied ? args.next : args.value,
              static_cast<std::size_t>(args.count) * size_of(args.dtype));
}

void run(CpuQueue& queue, const SumSquares& args) {
  const std::int64_t chunks = args.count > 0 ? (args.count + kChunk - 1) / kChunk : 0;
  Scratch::Scope scope(queue.scratch());
  double* partial = scope.take<double>(chunks);  // [chunks]
  parallel_ranges(args.count, kChunk, [=, &args](std::int64_t begin, std::int64_t end) {
    partial[begin / kChunk] = sum_squares_range(args.x + begin, end - begin);
  });
  double sum = 0;
  for (std::int64_t i = 0; i < chunks; ++i) sum += partial[i];
  *args.result = sum;
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(PrepareUpdate)
DTN_DISPATCH(AdamWStep)
DTN_DISPATCH(SgdStep)
DTN_DISPATCH(LionStep)
DTN_DISPATCH(EmaStep)
DTN_DISPATCH(CommitBuffers)
DTN_DISPATCH(SumSquares)
