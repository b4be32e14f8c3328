// Optimizer updates. They are limited by memory bandwidth, so each is one pass over the buffers.
// See optimizer.h for the formulas; the order of operations is PyTorch's.
#include "kernels/optimizer/optimizer.h"

#include <cstring>

#include "kernels/cpu/isa.h"
#include "kernels/optimizer/optimizer_factors.h"
#include "kernels/optimizer/update_vectors.h"

namespace dtn::DTN_ISA {
namespace {

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

void run(CpuQueue&, const PrepareLateUpdate& args) { prepare_late_update(args); }

void run(CpuQueue&, const AdamWStep& args) {
  const AdamWFactors f = factors_of(args);
  if (!f.apply) return;
  for_all_vectors(args.count, [=](std::int64_t i, auto count) {
    VecF g = load_n(args.grad + i, count) * f.grad_scale;
    VecF p = load_n(args.param + i, count) * f.decay;
    VecF m = load_n(args.m + i, count) * f.beta1 + f.rest1 * g;
    VecF v = load_n(args.v + i, count) * f.beta2 + f.rest2 * g * g;
    VecF denominator = sqrt(v) / f.root_correction2 + f.eps;
    p = p + f.step * m / denominator;
    store_n(args.m + i, m, count);
    store_n(args.v + i, v, count);
    store_params(args, i, p, count);
  });
}

void run(CpuQueue&, const SgdStep& args) {
  const SgdFactors f = factors_of(args);
  if (!f.apply) return;
  for_all_vectors(args.count, [=](std::int64_t i, auto count) {
    VecF p = load_n(args.param + i, count);
    VecF g = load_n(args.grad + i, count) * f.grad_scale + f.decay * p;
    VecF move = g;
    if (args.momentum != 0) {
      if (!f.first) move = f.momentum * load_n(args.momentum_buffer + i, count) + g;
      store_n(args.momentum_buffer + i, move, count);
      if (args.nesterov) move = f.momentum * move + g;
    }
    store_params(args, i, p + f.step * move, count);
  });
}

void run(CpuQueue&, const LionStep& args) {
  const LionFactors f = factors_of(args);
  if (!f.apply) return;
  for_all_vectors(args.count, [=](std::int64_t i, auto count) {
    const VecF zero{}, step = broadcast(f.step);
    VecF g = load_n(args.grad + i, count) * f.grad_scale;
    VecF m = load_n(args.m + i, count);
    VecF direction = m * f.beta1 + f.rest1 * g;
    VecF p = load_n(args.param + i, count) * f.decay;
    p = p + (direction > zero ? step : direction < zero ? -step : zero);
    store_n(args.m + i, m * f.beta2 + f.rest2 * g, count);
    store_params(args, i, p, count);
  });
}

void run(CpuQueue&, const EmaStep& args) {
  const EmaFactors f = factors_of(args);
  if (!f.apply) return;
  for_all_vectors(args.count, [=](std::int64_t i, auto count) {
    const VecF average = load_n(args.average + i, count), param = load_n(args.param + i, count);
    const VecF next = f.decay * average + f.rest * param;
    store_n(args.average + i, average == param ? average : next, count);  // without rounding
  });
}

void run(CpuQueue&, const CommitBuffers& args) {
  const bool applied = is_applied(args.state);
  std::memcpy(applied ? args.value : args.next, applied ? args.next : args.value,
              static_cast<std::size_t>(args.count) * size_of(args.dtype));
}

void run(CpuQueue& queue, const SumSquares& args) {
  const std::int64_t chunks = args.count > 0 ? (args.count + kUpdateChunk - 1) / kUpdateChunk : 0;
  Scratch::Scope scope(queue.scratch());
  double* partial = scope.take<double>(chunks);  // [chunks]
  parallel_ranges(args.count, kUpdateChunk, [=, &args](std::int64_t begin, std::int64_t end) {
    partial[begin / kUpdateChunk] = sum_squares_range(args.x + begin, end - begin);
  });
  double sum = 0;
  for (std::int64_t i = 0; i < chunks; ++i) sum += partial[i];
  *args.result = sum;
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(PrepareUpdate)
DTN_DISPATCH(PrepareLateUpdate)
DTN_DISPATCH(AdamWStep)
DTN_DISPATCH(SgdStep)
DTN_DISPATCH(LionStep)
DTN_DISPATCH(EmaStep)
DTN_DISPATCH(CommitBuffers)
DTN_DISPATCH(SumSquares)
