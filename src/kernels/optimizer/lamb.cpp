// LAMB takes one pass without trust ratios, and two with them: the first computes the moments and
// the norms of each tensor, the second the step. The second pass recomputes u from the moments; its
// traffic is about the same as with a stored u, but it needs no memory for u.
#include "kernels/optimizer/lamb.h"

#include "kernels/cpu/isa.h"
#include "kernels/cpu/square_sum.h"
#include "kernels/optimizer/optimizer_factors.h"
#include "kernels/optimizer/update_vectors.h"

namespace dtn::DTN_ISA {
namespace {

// Stores the new moments at i.
template <class N>
inline void advance_moments(const LambStep& args, const LambFactors& f, std::int64_t i, N count) {
  VecF g = load_n(args.grad + i, count) * f.grad_scale;
  store_n(args.m + i, load_n(args.m + i, count) * f.beta1 + f.rest1 * g, count);
  store_n(args.v + i, load_n(args.v + i, count) * f.beta2 + f.rest2 * g * g, count);
}

// Returns u at i for the weights p.
template <class N>
inline VecF update_at(const LambStep& args, const LambFactors& f, VecF p, std::int64_t i, N count) {
  VecF denominator = sqrt(load_n(args.v + i, count)) / f.root_correction2 + f.eps;
  return load_n(args.m + i, count) / f.correction1 / denominator + f.decay * p;
}

template <class N>
inline void move(const LambStep& args, const LambFactors& f, float step, std::int64_t i, N count) {
  VecF p = load_n(args.param + i, count);
  p = p + step * update_at(args, f, p, i, count);
  store_params(args, i, p, count);
}

void step_without_ratios(const LambStep& args, const LambFactors& f) {
  const float step = static_cast<float>(-f.lr);
  for_all_vectors(args.count, [=](std::int64_t i, auto count) {
    advance_moments(args, f, i, count);
    move(args, f, step, i, count);
  });
}

LambSums advance_chunk(const LambStep& args, const LambFactors& f, TensorChunk chunk) {
  SquareSum params, updates;
  for_each_vector<float>(chunk.end - chunk.begin, [&](std::int64_t at, auto count) {
    const std::int64_t i = chunk.begin + at;
    advance_moments(args, f, i, count);
    const VecF p = load_n(args.param + i, count);  // lanes beyond `count` are 0, and so is their u
    params.add(p);
    updates.add(update_at(args, f, p, i, count));
  });
  return {params.total(), updates.total()};
}

void step_with_ratios(Scratch& scratch, const LambStep& args, const LambFactors& f) {
  const TensorChunks& t = args.tensors;
  Scratch::Scope scope(scratch);
  LambSums* partial = scope.take<LambSums>(t.chunk_count);
  float* steps = scope.take<float>(t.tensor_count);
  parallel_for(t.chunk_count, [=, &args](std::int64_t c) {
    partial[c] = advance_chunk(args, f, args.tensors.chunks[c]);
  });
  for (std::int64_t i = 0; i < t.tensor_count; ++i) {
    LambSums sums{};
    for (std::int64_t c = t.first_chunk[i]; c < t.first_chunk[i + 1]; ++c) {
      sums.param += partial[c].param;
      sums.update += partial[c].update;
    }
    steps[i] = lamb_step(f, sums);
  }
  parallel_for(t.chunk_count, [=, &args](std::int64_t c) {
    const TensorChunk chunk = args.tensors.chunks[c];
    for_each_vector<float>(chunk.end - chunk.begin, [=, &args](std::int64_t i, auto count) {
      move(args, f, steps[chunk.tensor], chunk.begin + i, count);
    });
  });
}

}  // namespace

void run(CpuQueue& queue, const LambStep& args) {
  const LambFactors f = factors_of(args);
  if (!f.apply) return;
  if (args.tensors.tensor_count == 0) {
    step_without_ratios(args, f);
  } else {
    step_with_ratios(queue.scratch(), args, f);
  }
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(LambStep)
