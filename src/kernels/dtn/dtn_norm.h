// Dynamic Token Normalization (Shao et al., ICLR 2022, Eqs. 4-7), exact and separable.
//
// For image b, head h with its D = C / H channels c, token i at column x_i and row y_i of the grid,
// with dx = x_j - x_i and dy = y_j - y_i:
//    P^h[i, j] = softmax over j of  a_d (dx^2 + dy^2) + a_x dx + a_y dy
//    m1[i, c]  = sum_j P^h[i, j] x[j, c]
//    v1[i, c]  = sum_j P^h[i, j] x[j, c]^2 - m1[i, c]^2
//    mu[i, c]  = l_mu^h mu_ln[i] + (1 - l_mu^h) m1[i, c]
//    var[i, c] = l_va^h var_ln[i] + (1 - l_va^h) v1[i, c]
//    y[i, c]   = weight[c] (x[i, c] - mu[i, c]) / sqrt(var[i, c] + eps) + bias[c]
// mu_ln and var_ln are the mean and the biased variance of token i over all C channels. The
// exponent is a sum of one term per axis, so P^h is a Kronecker product of two matrices whose rows
// sum to 1:
//    P^h = Py^h (x) Px^h
// P x is then a pass along the rows of the grid and a pass down its columns. It takes
// grid_w + grid_h multiply-adds per element instead of grid_w grid_h.
//
// In float32, on axes longer than kWholeAxis, weights below kMinWeight times the largest of their
// row are set to 0. P is usually a narrow window on a wide grid, and the passes read only this
// window. The weights that are left out of a row are below the rounding of its sum.
//
// pool = s > 1 is the paper's average pooling of the statistics. The input of the cross-token
// statistics, which is x (kOfficial: x divided as below), is averaged over cells of s x s tokens,
// then squared. P belongs to the grid of T / s^2 cells, in raster order. Every token
// of a cell has the m1 and v1 of its cell. mu_ln and var_ln remain those of the token. CUDA devices
// support this only with full position matrices, see dtn_dense.h.
//
// Variants:
//   kPaper     as above; v1 is clamped at 0, and has no gradient where it is clamped.
//   kOfficial  as the released code: x is first divided by its root mean square over the D channels
//              of the head, x / sqrt(mean x^2 + eps), and all other steps use the result; var_ln is
//              unbiased; dx = x_i - x_j, dy = y_i - y_j; v1 is not clamped.
//
// There may be other tokens between two grids, such as a class token before each grid. image_stride
// includes them. They are neither read nor written.
//
// x, y and activation gradients have `dtype`. Weights, lambdas, statistics and parameter gradients
// have the accumulator type (float32; float64 for float64). Activation gradients are written (=),
// parameter gradients are added to (+=). Any grid works; a sequence is a grid of one row. Results
// depend on the shape alone, never on the number of threads.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

inline constexpr int kWholeAxis = 16;
inline constexpr float kMinWeight = 1e-9f;

enum class DtnVariant : std::uint8_t { kPaper, kOfficial };

// Arguments of both passes.
struct DtnNormArguments {
  DType dtype;
  std::int64_t batch, grid_h, grid_w, channels, heads;  // B; T = grid_h grid_w; C; H, divides C
  double eps;
  DtnVariant variant = DtnVariant::kPaper;
  std::int64_t pool = 1;    // s, divides grid_h and grid_w
  const void* x;            // [B, T, C], token t = row grid_w + column
  const void* weight;       // [C]
  const void* lambda_mean;  // [H], l_mu in [0, 1]: after the sigmoid
  const void* lambda_var;   // [H], l_va in [0, 1]
  const void* pos_weight;   // [H, 3], columns a_x, a_y, a_d
  // Statistics that the forward pass writes (=) for the backward pass. All are required. They are
  // much smaller than x.
  void* token_mean;  // [B, T] mu_ln
  void* token_var;   // [B, T] var_ln
  void* pivot;       // [B, C] mean over tokens, subtracted before squaring
  // [B, H, T] float64, 1 / sqrt(mean x^2 + eps); required by kOfficial, else unused
  void* head_rstd = nullptr;
  std::int64_t image_stride = 0;  // of x, y and their gradients; elements, at least T C; 0: T C
  // Elements between the weights of two images, and between their biases and the gradients of both;
  // 0: all images have the same. Only the CPU passes here and in dtn_dense.h support it.
  std::int64_t parameter_stride = 0;
  bool scales = false;  // true: weight holds scales, and the factor is 1 + scale; needs a stride

  std::int64_t elements() const { return grid_h * grid_w * channels; }  // of the grid of an image
  std::int64_t stride() const { return image_stride ? image_stride : elements(); }
  bool is_empty() const { return batch == 0 || elements() == 0; }
  // Multiply-adds of a product of P with one statistic: with the full matrix, or axis by axis.
  double dense_product() const { return product(grid_h / pool * (grid_w / pool)); }
  double separable_product() const { return product(grid_h / pool + grid_w / pool); }

 private:
  double product(std::int64_t per_cell) const {
    const std::int64_t cells = grid_h / pool * (grid_w / pool);
    return static_cast<double>(batch * channels) * static_cast<double>(per_cell * cells);
  }
};

// Logits of learned lambdas: lambda = 1 / (1 + exp(-logit)) is written (=) to the pass's lambdas.
struct DtnLogits {
  const void* mean = nullptr;   // [H]; null: lambda_mean is given
  const void* var = nullptr;    // [H]; null: lambda_var is given
  void* lambda_mean = nullptr;  // [H], memory of the pass's lambda_mean
  void* lambda_var = nullptr;   // [H], memory of the pass's lambda_var
};

// The residual sum before the norm. The pass first computes its x:
//    x = residual + scale[b] branch, rounded to dtype
// It is bit-identical to ScaleRows (without scale: to Add), see pointwise.h. There must be no other
// tokens between images. The passes of dtn_sequence.h and dtn_dense.h do not support it.
struct DtnSum {
  const void* residual = nullptr;  // [B, T, C]; null: x is given
  const void* branch = nullptr;    // [B, T, C]
  const void* scale = nullptr;     // [B], accumulator type; null: 1
  void* x = nullptr;               // [B, T, C], memory of the pass's x
};

struct DtnNormForward : DtnNormArguments {
  const void* bias;  // [C]
  void* y;           // [B, T, C]; not x
  DtnLogits logits = {};
  DtnSum sum = {};

  double multiply_adds() const { return 2 * separable_product(); }  // for x and x^2
  double paper_multiply_adds() const { return dense_product(); }
};
void run(CpuQueue&, const DtnNormForward&);
void run(CudaQueue&, const DtnNormForward&);

// Recomputes m1 and v1. With dxhat = dy weight, r = (var + eps)^-1/2:
//    dmu  = -dxhat r
//    dvar = -1/2 dxhat (x - mu) r^3
//    dm1  = (1 - l_mu) dmu - 2 (1 - l_va) dvar m1
//    dm2  = (1 - l_va) dvar
//    dx   = dxhat r + P^T dm1 + 2 x (P^T dm2) + (1/C) sum_c l_mu dmu
//           + (2/C) (x - mu_ln) sum_c l_va dvar + dx_add
//    dlambda_mean += sum dmu (mu_ln - m1)
//    dlambda_var  += sum dvar (var_ln - v1)
// Gradients of the logits are l (1 - l) times those of the lambdas. After a DtnSum:
//    dbranch = scale[b] dx,   from the rounded dx
//    dbranch_sums += sum over samples and tokens of dbranch,   before or after rounding
// With z1 and z2 the row pass of x and of x^2:
//    dPy[i, j] = sum dm1[i] z1[j] + dm2[i] z2[j],   dPx likewise
struct DtnNormBackward : DtnNormArguments {
  const void* dy;                // [B, T, C]
  const void* dx_add = nullptr;  // [B, T, C] dtype: gradient through the residual; may be dx
  void* dx = nullptr;            // [B, T, C], written (=); not dy, not x
  void* dweight = nullptr;       // [C], +=
  void* dbias = nullptr;         // [C], +=
  void* dlambda_mean = nullptr;  // [H], +=
  void* dlambda_var = nullptr;   // [H], +=
  void* dpos_weight = nullptr;   // [H, 3], +=; null skips its computation
  bool by_logits = false;        // dlambda_mean and dlambda_var are gradients of the logits
  void* dbranch = nullptr;       // [B, T, C], written (=); requires dx, overlaps no other tensor
  void* dbranch_sums = nullptr;  // [C], accumulator type, +=; only with dbranch
  const void* branch_scale = nullptr;  // [B], the scale of DtnSum; required with dbranch

  // Counts the row passes, the transposed passes, and the gradients of both factors of P.
  double multiply_adds() const { return (dpos_weight ? 2.5 : 1.5) * 2 * separable_product(); }
};
void run(CpuQueue&, const DtnNormBackward&);
void run(CudaQueue&, const DtnNormBackward&);

}  // namespace dtn
