// One pass over the gradients for the norms, and one that scales the tensors above the limit.
#include "kernels/optimizer/parameter_clip.h"

#include "dtn/core/parallel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/square_sum.h"
#include "kernels/optimizer/optimizer_factors.h"

namespace dtn::DTN_ISA {
namespace {

double squares_of_chunk(const float* grad, TensorChunk chunk) {
  SquareSum sum;
  for_each_vector<float>(chunk.end - chunk.begin, [&](std::int64_t i, auto count) {
    sum.add(load_n(grad + chunk.begin + i, count));
  });
  return sum.total();
}

// Sets the factor of each tensor, [tensor_count], from the sums of squares of its chunks.
void find_factors(const ParameterClip& args, const double* partial, float* factors) {
  const TensorChunks& t = args.tensors;
  for (std::int64_t i = 0; i < t.tensor_count; ++i) {
    double sum = 0;
    for (std::int64_t c = t.first_chunk[i]; c < t.first_chunk[i + 1]; ++c) sum += partial[c];
    factors[i] = parameter_factor(args, sum);
  }
}

void scale_chunk(float* grad, TensorChunk chunk, float factor) {
  if (factor == 1) return;
  for_each_vector<float>(chunk.end - chunk.begin, [=](std::int64_t i, auto count) {
    float* at = grad + chunk.begin + i;
    store_n(at, load_n(at, count) * factor, count);
  });
}

}  // namespace

void run(CpuQueue& queue, const ParameterClip& args) {
  const TensorChunks& t = args.tensors;
  Scratch::Scope scope(queue.scratch());
  double* partial = scope.take<double>(t.chunk_count);
  float* factors = scope.take<float>(t.tensor_count);
  parallel_for(t.chunk_count, [=, &args](std::int64_t c) {
    partial[c] = squares_of_chunk(args.grad, args.tensors.chunks[c]);
  });
  find_factors(args, partial, factors);
  parallel_for(t.chunk_count, [=, &args](std::int64_t c) {
    const TensorChunk chunk = args.tensors.chunks[c];
    scale_chunk(args.grad, chunk, factors[chunk.tensor]);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(ParameterClip)
