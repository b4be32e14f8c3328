// Multi-head self-attention, softmax(q k^T scale) v per head, without a B x H x T x T tensor: a
// block of query rows at a time in per-thread scratch memory. dtype is float32, bfloat16 (softmax
// and accumulation in float32) or float64. A NaN reaches everything that depends on it. Results do
// not depend on the number of threads.
//
// Where the tokens are those of a grid, in raster order, the scaled score of query i and key j may
// get a positional bias: that of the paper's Eq. 6 (Shao et al., ICLR 2022; Table 10),
//   a_d (dx^2 + dy^2) + a_x dx + a_y dy
//   dx = x_j - x_i (columns)
//   dy = y_j - y_i (rows)
// with weights (a_x, a_y, a_d) of each head.
//
// Samples may be of different lengths, padded at the end: then each is computed as if it stood alone
// and were that long, so what comes out of it does not depend on T. What pads hold is never read.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/attention/attention_dropout.h"

namespace dtn {

struct AttentionForward {
  DType dtype;
  std::int64_t batch, tokens, heads, head_dim;  // B, T, H, D
  double scale;                                 // usually 1 / sqrt(D)
  const void* qkv;  // [B, T, 3, H, D], the layout of timm's qkv projection
  void* out;        // [B, T, H, D]
  void* lse;        // [B, H, T], accumulator type: log-sum-exp of the scaled scores, for backward
  const void* pos_weight = nullptr;     // [H, 3], accumulator type: a_x, a_y, a_d; null: no bias
  std::int64_t grid_h = 0, grid_w = 0;  // with a bias: T = grid_h grid_w
  // [B]: how many tokens of a sample count, from the first on; null: all. Outputs of the others are
  // 0. Not with a bias.
  const std::int64_t* lengths = nullptr;
  AttentionDropout dropout{};  // of the weights

  double multiply_adds() const {  // scores and values
    return 2.0 * static_cast<double>(batch * tokens * tokens) *
           static_cast<double>(heads * head_dim);
  }
};
void run(CpuQueue&, const AttentionForward&);
void run(CudaQueue&, const AttentionForward&);

// Recomputes the probabilities from q, k and lse.
struct AttentionBackward {
  DType dtype;
  std::int64_t batch, tokens, heads, head_dim;
  double scale;
  const void* qkv;   // [B, T, 3, H, D]
  const void* out;   // [B, T, H, D]
  const void* lse;   // [B, H, T]
  const void* dout;  // [B, T, H, D]
  void* dqkv;        // [B, T, 3, H, D], written (=)
  const void* pos_weight = nullptr;
  std::int64_t grid_h = 0, grid_w = 0;
  void* dpos_weight = nullptr;            // [H, 3] +=, accumulator type; null: not wanted
  const std::int64_t* lengths = nullptr;  // as in the forward pass; gradients of pads are 0
  AttentionDropout dropout{};

  double multiply_adds() const {  // the scores again, and two gradients of each product
    return 5.0 * static_cast<double>(batch * tokens * tokens) *
           static_cast<double>(heads * head_dim);
  }
};
void run(CpuQueue&, const AttentionBackward&);
void run(CudaQueue&, const AttentionBackward&);

namespace attention {
// Images in one grid of a CUDA device, which allows no more in its third dimension. Tests set less.
inline std::int64_t images_of_grid = 65535;

// Whether devices of compute capability 9.0 get the kernels of attention_warpgroup_*.cu. No card has
// run them yet, so DTN_CUDA_WGMMA=1 in the environment, or a test, must ask for them.
inline bool use_warpgroups = [] {
  const char* wanted = std::getenv("DTN_CUDA_WGMMA");
  return wanted && std::string_view(wanted) == "1";
}();
}  // namespace attention

}  // namespace dtn
