// What the CUDA paths of DTN share: the position matrices, the statistics of tokens, and the last
// steps of the backward pass. See dtn_norm.h for the formulas.
#pragma once

#include <cfloat>

#include "kernels/cuda/launch.cuh"
#include "kernels/dtn/dtn_norm_cuda.h"

namespace dtn {

struct DtnSizes {
  std::int64_t batch, channels;
  std::int64_t image;  // elements from one image to the next
  int grid_h, grid_w, tokens, heads, head_dim;
  float eps;

  template <class Arguments>
  explicit DtnSizes(const Arguments& args)
      : batch(args.batch),
        channels(args.channels),
        image(dtn_image_stride(args)),
        grid_h(static_cast<int>(args.grid_h)),
        grid_w(static_cast<int>(args.grid_w)),
        tokens(grid_h * grid_w),
        heads(static_cast<int>(args.heads)),
        head_dim(static_cast<int>(args.channels / args.heads)),
        eps(static_cast<float>(args.eps)) {}

  // Where token `row` of all images, [B T], begins.
  __device__ __forceinline__ std::int64_t start_of(std::int64_t row) const {
    return row / tokens * image + row % tokens * channels;
  }
};

// Row length of a stored position matrix: n rounded up to whole 32 bytes.
inline int position_stride(int n) { return (n + 7) / 8 * 8; }

// Positions [begin, end) along an axis.
struct DtnSpan {
  int begin, end;

  __host__ __device__ __forceinline__ bool meets(int from, int to) const {
    return begin < to && from < end;
  }
};

// Weights of P below the smallest normal number are 0, as on the CPU.
__device__ __forceinline__ float normal_or_zero(float weight) {
  return weight < FLT_MIN ? 0.0f : weight;
}

// x scale - shift, rounded once: the quotients that the official variant makes of x, by the root
// mean square of a head, may differ in their last digits only, and those must survive.
__device__ __forceinline__ float centred_quotient(float x, double scale, float shift) {
  return static_cast<float>(static_cast<double>(x) * scale - static_cast<double>(shift));
}

// The position matrices of heads [first_head, ...) along one axis of n grid positions. Each matrix
// is [n, stride] with zeros in columns [n, stride); head h begins at (h - first_head) n stride.
struct DtnAxis {
  int n, stride;
  const float* p;             // p[i, j]: what position j contributes to position i; rows sum to 1
  const float* p_transposed;  // [j, i]
  // What turns dP into the gradient of the position weights (null unless wanted), [i, j]:
  //   da_offset = sum_ij by_offset dP,  da_d = sum_ij by_square dP.
  const float *by_offset, *by_square;
  const DtnSpan* seen;  // [i] of each head: outside of it row i of all these is 0

  __host__ __device__ std::int64_t per_head() const { return std::int64_t{n} * stride; }
};

// Made anew by each launch, from the weights; lives until what uses it is enqueued.
struct DtnPositions {
  DtnAxis rows;     // along the rows of the grid: n = grid_w, weight a_x
  DtnAxis columns;  // down its columns: n = grid_h, weight a_y
  DeviceScratch<float> memory;
  DeviceScratch<DtnSpan> spans;
  const uint4* operands = nullptr;  // see dtn_norm_operands.cuh; null unless wanted
};

// What each pass makes first. `bases` is the mean of the first token of each image, [B]; the
// official variant takes its sign instead, +-1, because what it normalizes lies there when the mean
// is large. `token_mean` is kept relative to it: float32 could not hold a mean much larger than the
// standard deviation. So, for a channel,
//   mu_ln - pivot = token_mean + (base - pivot).
// Forward and backward pass get the same bits.
struct DtnPrepared {
  DtnPositions positions;
  DeviceScratch<float> bases;
};

// Position matrices of heads [first_head, first_head + heads), bases and the lambdas that DtnLogits
// asks for, in one launch; of no heads all but the matrices. With `gradients` also by_offset and
// by_square. With `operands` also the words of dtn_norm_operands.cuh, for grids of up to 16 x 16.
DtnPrepared prepare(CudaQueue& queue, const DtnNormForward& args, int first_head, int heads);
DtnPrepared prepare(CudaQueue& queue, const DtnNormBackward& args, int first_head, int heads,
                    bool gradients, bool operands = false);

// Writes token_mean, token_var and, for the official variant, head_rstd: one warp per token.
void token_statistics(CudaQueue& queue, const DtnNormForward& args, const float* bases);

// dx = unfinished + (1/C) sum_c l_mu dmu + (2/C) (x - mu_ln) sum_c l_va dvar + dx_add, then for the
// official variant back through the division by the head's root mean square (dx_add stays outside).
//   unfinished  float32, laid out like args.dx, which it may be when that is float32
//   token_sums  [2, B, parts, T]: sums over some of the channels of l_mu dmu, and of l_va dvar; all
//               `parts` together make up the channels of a token
//   add_residual  false when `unfinished` has dx_add in it already
//   lengths     [B], valid tokens of each sample, behind which dx is 0; null: all are valid
void finish_input_gradient(CudaQueue& queue, const DtnNormBackward& args, const float* bases,
                           const float* unfinished, const float* token_sums, int parts,
                           bool add_residual, const std::int64_t* lengths = nullptr);

// Partial sums of the parameter gradients, to be added to them in an order fixed by the shape. What
// is null, here or in the arguments, is left out.
struct DtnPartials {
  std::int64_t channel_rows;              // of weight and bias, for instance B
  const float *weight, *bias;             // [channel_rows, C]
  std::int64_t head_rows;                 // of what follows
  const float *lambda_mean, *lambda_var;  // [head_rows, H]
  const float* pos_weight;                // [head_rows, H, 3]
  const float* branch = nullptr;          // [channel_rows, C]
};
void finish_parameter_gradients(CudaQueue& queue, const DtnNormBackward& args,
                                const DtnPartials& partials);

}  // namespace dtn
