// Switchable normalization of tokens (Luo et al., "Differentiable learning-to-normalize via
// switchable normalization", ICLR 2019). Each element is normalized by a mixture of the statistics
// of its channel in its image (instance norm), of its token (layer norm, as transformers have it)
// and of its channel in the batch (batch norm):
//   w = softmax(mean_weight)
//   v = softmax(var_weight)
//   mu[b,t,c]  = w_in mu_in[b,c] + w_ln mu_ln[b,t] + w_bn mu_bn[c]
//   var[b,t,c] = v_in var_in[b,c] + v_ln var_ln[b,t] + v_bn var_bn[c]
//   r = (var + eps)^-1/2
//   y = weight[c] (x - mu) r + bias[c]
// with biased variances. The weights stand in the order instance, layer, batch.
//
// Forward and backward take two steps each, because the batch's part needs all images before the
// first is finished. Between the steps, runs over several ranks combine what the ranks found.
// Activations and activation gradients have `dtype` and are written (=); parameters and their
// gradients, which are added to (+=), variances and sums have the accumulator type. Means are
// float64: beside a large mean, float32 could not hold them to the digits of the deviation.
// Partial sums are cut by the shape alone, so results do not depend on threads.
//
// Samples of different lengths lie in one tensor, padded at their ends. Pads are not read, whatever
// they hold, and no result depends on how many there are; statistics and sums of theirs are not
// written, y is 0 there and dx is dx_add.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// The input, the weights of the mixture, and the statistics.
struct SwitchableTerms {
  DType dtype;
  std::int64_t batch, tokens, channels;
  double eps;
  const void* x;            // [B, T, C]
  const void* mean_weight;  // [3] logits of w
  const void* var_weight;   // [3] logits of v
  void* token_mean;         // [B, T], float64
  void* token_var;          // [B, T]
  void* image_mean;         // [B, C], float64
  void* image_var;          // [B, C]
  // How many of the T tokens of each sample count, on the device of x; null: all.
  const std::int64_t* lengths = nullptr;  // [B], 1 <= lengths[b] <= T
  std::int64_t longest = 0;               // of them
  std::int64_t valid = 0;                 // their sum
  // Of the batch; null: `running_mean` and `running_var` are used in their place, as constants.
  void* batch_mean = nullptr;          // [C], float64
  void* batch_var = nullptr;           // [C]
  const void* running_mean = nullptr;  // [C]
  const void* running_var = nullptr;   // [C]

  // The tokens of the longest sample, which tell how samples are cut.
  std::int64_t most_tokens() const { return lengths ? longest : tokens; }
  // Of all samples.
  std::int64_t rows() const { return lengths ? valid : batch * tokens; }
};

// Forward, the first step: writes the six statistics (four without batch_mean). Those of the
// batch over several ranks are what CombineMoments makes of theirs.
struct SwitchableNormStatistics {
  SwitchableTerms terms;
};
void run(CpuQueue&, const SwitchableNormStatistics&);
void run(CudaQueue&, const SwitchableNormStatistics&);

// Forward, the second step: y, and the running statistics, which move on when there are any, also
// where a rank has no samples:
//   next = (1 - momentum) next + momentum batch.
struct SwitchableNormForward {
  SwitchableTerms terms;
  const void* weight;  // [C]
  const void* bias;    // [C]
  void* y;             // [B, T, C]
  double momentum = 0;
  void* next_mean = nullptr;  // [C]; only with batch_mean
  void* next_var = nullptr;   // [C]; the variance that normalized the batch, so the biased one
};
void run(CpuQueue&, const SwitchableNormForward&);
void run(CudaQueue&, const SwitchableNormForward&);

// Backward, the first step. With dmu = -dy weight r and dvar = -1/2 dy weight (x - mu) r^3:
//   token_dmean[b,t] = sum_c dmu,   image_dmean[b,c] = sum_t dmu,   batch_dmean[c] = sum_bt dmu
// and *_dvar likewise (batch_*, too, are gradients of mu and var, before the mixture's weights),
//   dweight += sum_bt dy (x - mu) r,   dbias += sum_bt dy
//   dmean_weight[k] += w_k (g_k - sum_j w_j g_j),   g_k = sum_btc dmu mu_k,   dvar_weight likewise
// Over ranks, the sums of batch_dmean and batch_dvar are what the second step wants.
struct SwitchableNormBackwardSums {
  SwitchableTerms terms;
  const void* weight;            // [C]
  const void* dy;                // [B, T, C]
  void* token_dmean;             // [B, T]
  void* token_dvar;              // [B, T]
  void* image_dmean;             // [B, C]
  void* image_dvar;              // [B, C]
  void* batch_dmean;             // [C]
  void* batch_dvar;              // [C]
  void* dweight = nullptr;       // [C]
  void* dbias = nullptr;         // [C]
  void* dmean_weight = nullptr;  // [3]
  void* dvar_weight = nullptr;   // [3]
};
void run(CpuQueue&, const SwitchableNormBackwardSums&);
void run(CudaQueue&, const SwitchableNormBackwardSums&);

// Backward, the second step, with N positions in the batch,
// and T the tokens of the sample:
//   dx = dy weight r + w_in/T image_dmean + 2 v_in/T (x - mu_in) image_dvar
//                    + w_ln/C token_dmean + 2 v_ln/C (x - mu_ln) token_dvar
//                    + w_bn/N batch_dmean + 2 v_bn/N (x - mu_bn) batch_dvar + dx_add
// where the third line is left out when running statistics stood in.
struct SwitchableNormBackward {
  SwitchableTerms terms;
  const void* weight;            // [C]
  const void* dy;                // [B, T, C]
  const void* token_dmean;       // [B, T]
  const void* token_dvar;        // [B, T]
  const void* image_dmean;       // [B, C]
  const void* image_dvar;        // [B, C]
  const void* batch_dmean;       // [C]
  const void* batch_dvar;        // [C]
  std::int64_t positions;        // N = B T less the pads, over all ranks
  const void* dx_add = nullptr;  // [B, T, C]: what reaches x along the residual; may be dx
  void* dx;                      // [B, T, C]; may be dy
};
void run(CpuQueue&, const SwitchableNormBackward&);
void run(CudaQueue&, const SwitchableNormBackward&);

}  // namespace dtn
