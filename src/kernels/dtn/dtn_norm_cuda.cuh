// Shared by the CUDA paths of DTN: position matrices, token statistics, and the last steps of the
// backward pass. See dtn_norm.h for the formulas.
#pragma once

#include <cfloat>

#include "kernels/cuda/values.cuh"
#include "kernels/dtn/dtn_norm_cuda.h"

namespace dtn {

struct DtnSizes {
  std::int64_t batch, channels;
  std::int64_t image;  // elements between the starts of two images
  int grid_h, grid_w, tokens, heads, head_dim;
  float eps;

  explicit DtnSizes(const DtnNormArguments& args)
      : batch(args.batch),
        channels(args.channels),
        image(args.stride()),
        grid_h(static_cast<int>(args.grid_h)),
        grid_w(static_cast<int>(args.grid_w)),
        tokens(grid_h * grid_w),
        heads(static_cast<int>(args.heads)),
        head_dim(static_cast<int>(args.channels / args.heads)),
        eps(static_cast<float>(args.eps)) {}

  // Offset of token `row` of all images, [B T], in elements.
  __device__ __forceinline__ std::int64_t start_of(std::int64_t row) const {
    return row / tokens * image + row % tokens * channels;
  }
};

// Calls f<T, official>() for the type and the variant of `args`.
template <class F>
void for_dtn_variant(const char* kernel, const DtnNormArguments& args, F&& f) {
  for_cuda_dtype(kernel, args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.variant == DtnVariant::kOfficial) {
      f.template operator()<T, true>();
    } else {
      f.template operator()<T, false>();
    }
  });
}

// Row length of a stored position matrix, in floats: n rounded up to a multiple of 32 bytes.
inline int position_stride(int n) { return (n + 7) / 8 * 8; }

// Positions [begin, end) along an axis.
struct DtnSpan {
  int begin, end;

  __host__ __device__ __forceinline__ bool meets(int from, int to) const {
    return begin < to && from < end;
  }
};

// Returns the weight, or 0 if it is below the smallest normal number, as on the CPU.
__device__ __forceinline__ float normal_or_zero(float weight) {
  return weight < FLT_MIN ? 0.0f : weight;
}

// Returns x scale - shift, rounded once. x scale is the official variant's quotient of x and the
// root mean square of a head. The quotients of a head may differ only in their last digits, which
// must not be lost.
__device__ __forceinline__ float centred_quotient(float x, double scale, float shift) {
  return static_cast<float>(static_cast<double>(x) * scale - static_cast<double>(shift));
}

// Returns x minus a shift; for the official variant x times the scale of the token, minus the
// shift. `scale` belongs to the image's head.
template <bool kOfficial, class T>
__device__ __forceinline__ float centred(T x, const double* scale, int token, float shift) {
  if constexpr (kOfficial) {
    return centred_quotient(cuda::to_float(x), scale[token], shift);
  } else {
    return cuda::to_float(x) - shift;
  }
}

// The position matrices of heads [first_head, ...) along one axis of n grid positions. Each matrix
// is [n, stride] with zeros in columns [n, stride); head h begins at (h - first_head) n stride.
struct DtnAxis {
  int n, stride;
  const float* p;             // p[i, j]: weight of position j for position i; rows sum to 1
  const float* p_transposed;  // [j, i]
  // Matrices for the gradients of the position weights from dP, [i, j]; null unless requested:
  //    da_offset = sum_ij by_offset dP
  //    da_d      = sum_ij by_square dP
  const float *by_offset, *by_square;
  const DtnSpan* seen;  // [i] of each head: row i of these matrices is 0 outside of this span

  __host__ __device__ std::int64_t per_head() const { return std::int64_t{n} * stride; }
};

// Position matrices. prepare() computes them from the weights in each pass. They must live until
// the kernels that use them are enqueued.
struct DtnPositions {
  DtnAxis rows;     // along the rows of the grid: n = grid_w, weight a_x
  DtnAxis columns;  // down its columns: n = grid_h, weight a_y
  DeviceScratch<float> memory;
  DeviceScratch<DtnSpan> spans;
  const uint4* operands = nullptr;  // see dtn_norm_operands.cuh; null unless requested
};

// Results of the first step of each pass. `bases` is the mean of the first token of each image,
// [B]. The official variant uses its sign instead, +-1, because its quotients are near +-1 if the
// mean is large. `token_mean` is stored relative to the base: if the mean is much larger than the
// standard deviation, float32 would lose digits. For a channel:
//    mu_ln - pivot = token_mean + (base - pivot)
// The forward and the backward pass get the same bits.
struct DtnPrepared {
  DtnPositions positions;
  DeviceScratch<float> bases;
};

// Computes, in one launch, the position matrices of heads [first_head, first_head + heads), the
// bases, and the lambdas that DtnLogits requests. With heads = 0 there are no matrices. `gradients`
// adds by_offset and by_square. `operands` adds the words of dtn_norm_operands.cuh, for grids of up
// to 16 x 16.
DtnPrepared prepare(CudaQueue& queue, const DtnNormArguments& args, int first_head, int heads,
                    bool gradients = false, bool operands = false, const DtnLogits& logits = {},
                    const DtnSum& sum = {});
// The same for a forward pass, with its logits and its sum.
inline DtnPrepared prepare(CudaQueue& queue, const DtnNormForward& args, int first_head,
                           int heads) {
  return prepare(queue, args, first_head, heads, false, false, args.logits, args.sum);
}

// Writes token_mean, token_var and, for the official variant, head_rstd: one warp per token.
void token_statistics(CudaQueue& queue, const DtnNormForward& args, const float* bases);

// Computes dx from its unfinished part:
//    dx = unfinished + (1/C) sum_c l_mu dmu + (2/C) (x - mu_ln) sum_c l_va dvar + dx_add
// The official variant has 2/(C - 1) instead of 2/C. Before it adds dx_add, it also takes the
// gradient back through the division by the root mean square of the head.
//    unfinished    float32, with the layout of args.dx; may be args.dx if that is float32
//    token_sums    [2, B, parts, T]: sums of l_mu dmu, and of l_va dvar, over some of the channels;
//                  the `parts` together cover all channels of a token
//    add_residual  false if `unfinished` already contains dx_add
//    lengths       [B], valid tokens of each sample; dx of later tokens is 0; null: all are valid
void finish_input_gradient(CudaQueue& queue, const DtnNormBackward& args, const float* bases,
                           const float* unfinished, const float* token_sums, int parts,
                           bool add_residual, const std::int64_t* lengths = nullptr);

// Partial sums of the parameter gradients. finish_parameter_gradients() adds them to the gradients,
// in an order that depends only on the shape. It skips a gradient if its pointer here or in the
// arguments is null.
struct DtnPartials {
  std::int64_t channel_rows;              // rows of weight, bias and branch, for example B
  const float *weight, *bias;             // [channel_rows, C]
  std::int64_t head_rows;                 // rows of the lambdas and pos_weight
  const float *lambda_mean, *lambda_var;  // [head_rows, H]
  const float* pos_weight;                // [head_rows, H, 3]
  const float* branch = nullptr;          // [channel_rows, C]
};
void finish_parameter_gradients(CudaQueue& queue, const DtnNormBackward& args,
                                const DtnPartials& partials);

}  // namespace dtn
