// Multi-head self-attention, softmax(q k^T scale) v per head, without a B x H x T x T tensor. It
// computes one block of query rows at a time in per-thread scratch memory. dtype is float32,
// bfloat16 (softmax and accumulation in float32) or float64. A NaN reaches every result that
// depends on it. Results do not depend on the number of threads.
//
// If the tokens form a grid, in raster order, the scaled score of query i and key j may get a
// positional bias. It is the paper's Eq. 6 (Shao et al., ICLR 2022; Table 10):
//    a_d (dx^2 + dy^2) + a_x dx + a_y dy
//    dx = x_j - x_i (columns)
//    dy = y_j - y_i (rows)
// Each head has its weights (a_x, a_y, a_d).
//
// Samples may have different lengths, with padding at the end. Each sample is then computed as if
// it were alone and without padding, so its results do not depend on T. The contents of padding
// tokens are never read.
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
  // [B]: number of valid tokens of each sample; they come first. null: all tokens are valid.
  // Outputs of the other tokens are 0. Cannot be combined with a bias.
  const std::int64_t* lengths = nullptr;
  AttentionDropout dropout{};  // of the attention weights

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
  void* dpos_weight = nullptr;            // [H, 3] +=, accumulator type; null: not needed
  const std::int64_t* lengths = nullptr;  // as in the forward pass; padding tokens get 0
  AttentionDropout dropout{};

  double multiply_adds() const {  // scores again, two gradients of each product
    return 5.0 * static_cast<double>(batch * tokens * tokens) *
           static_cast<double>(heads * head_dim);
  }
};
void run(CpuQueue&, const AttentionBackward&);
void run(CudaQueue&, const AttentionBackward&);

namespace attention {
// Largest number of images in one CUDA grid: the limit of its third dimension. Tests set less.
inline std::int64_t images_of_grid = 65535;

// True if devices of compute capability 9.0 use the kernels of attention_warpgroup_*.cu. No card
// has run them yet, so they are off unless DTN_CUDA_WGMMA=1 is in the environment or a test sets
// this.
inline bool use_warpgroups = [] {
  const char* wanted = std::getenv("DTN_CUDA_WGMMA");
  return wanted && std::string_view(wanted) == "1";
}();
}  // namespace attention

}  // namespace dtn
