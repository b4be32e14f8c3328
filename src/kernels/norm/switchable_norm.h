// Switchable normalization of tokens (Luo et al., "Differentiable learning-to-normalize via
// switchable normalization", ICLR 2019). Each element is normalized by a mixture of three
// statistics: of its channel in its image (instance norm), of its token (layer norm, as in
// transformers), and of its channel in the batch (batch norm):
//    w = softmax(mean_weight)
//    v = softmax(var_weight)
//    mu[b,t,c]  = w_in mu_in[b,c] + w_ln mu_ln[b,t] + w_bn mu_bn[c]
//    var[b,t,c] = v_in var_in[b,c] + v_ln var_ln[b,t] + v_bn var_bn[c]
//    r = (var + eps)^-1/2
//    y = weight[c] (x - mu) r + bias[c]
// The variances are biased. The mixture weights are in the order instance, layer, batch.
//
// Forward and backward take two steps each, because the batch statistics need all images before the
// first image can be finished. Between the steps, a job of several ranks combines their results.
// Activations and activation gradients have `dtype` and are overwritten (=). Parameters, parameter
// gradients, variances and sums have the accumulator type. Parameter gradients are accumulated
// (+=). Means are float64: if the mean is much larger than the standard deviation, a float32 mean
// is not precise enough. Partial sums depend only on the shape, so results do not depend on the
// number of threads.
//
// Samples of different lengths are padded at the end to T tokens. Pads are not read, so they may
// hold anything, and no result depends on their number. At a pad, y is 0, dx is dx_add, and
// statistics and sums are not written.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// Input, weights of the mixture, and statistics.
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
  // Number of valid tokens of each sample, on the device of x; null: all T.
  const std::int64_t* lengths = nullptr;  // [B], 1 <= lengths[b] <= T
  std::int64_t longest = 0;               // largest of the lengths
  std::int64_t valid = 0;                 // sum of the lengths
  // Batch statistics. If null, `running_mean` and `running_var` replace them, as constants.
  void* batch_mean = nullptr;          // [C], float64
  void* batch_var = nullptr;           // [C]
  const void* running_mean = nullptr;  // [C]
  const void* running_var = nullptr;   // [C]

  // Returns the tokens of the longest sample, which determine how samples are split.
  std::int64_t most_tokens() const { return lengths ? longest : tokens; }
  // Returns the valid tokens of all samples.
  std::int64_t rows() const { return lengths ? valid : batch * tokens; }
  bool is_empty() const { return batch == 0 || tokens == 0 || channels == 0; }
};

// Forward, first step: writes the six statistics (four if batch_mean is null). Over several ranks,
// CombineMoments combines the batch statistics of the ranks.
struct SwitchableNormStatistics {
  SwitchableTerms terms;
};
void run(CpuQueue&, const SwitchableNormStatistics&);
void run(CudaQueue&, const SwitchableNormStatistics&);

// Forward, second step: writes y and updates the running statistics, if there are any. A rank
// without samples updates them, too:
//    next = (1 - momentum) next + momentum batch
struct SwitchableNormForward {
  SwitchableTerms terms;
  const void* weight;  // [C]
  const void* bias;    // [C]
  void* y;             // [B, T, C]
  double momentum = 0;
  void* next_mean = nullptr;  // [C]; only with batch_mean
  void* next_var = nullptr;   // [C]; biased, like the variance that normalizes
};
void run(CpuQueue&, const SwitchableNormForward&);
void run(CudaQueue&, const SwitchableNormForward&);

// Arguments of both steps of the backward pass. The first step writes the gradients of the
// statistics (=).
struct SwitchableGradients {
  SwitchableTerms terms;
  const void* weight;  // [C]
  const void* dy;      // [B, T, C]
  void* token_dmean;   // [B, T]
  void* token_dvar;    // [B, T]
  void* image_dmean;   // [B, C]
  void* image_dvar;    // [B, C]
  void* batch_dmean;   // [C]
  void* batch_dvar;    // [C]
};

// Backward, first step:
//    dmu = -dy weight r,   dvar = -1/2 dy weight (x - mu) r^3
//    token_dmean[b,t] = sum_c dmu,   image_dmean[b,c] = sum_t dmu,   batch_dmean[c] = sum_bt dmu
//    token_dvar, image_dvar, batch_dvar: likewise, from dvar
//    dweight += sum_bt dy (x - mu) r,   dbias += sum_bt dy
//    dmean_weight[k] += w_k (g_k - sum_j w_j g_j),   g_k = sum_btc dmu mu_k,   dvar_weight likewise
// The sums, those of the batch included, are gradients of mu and var, without the weights of the
// mixture. Over several ranks, the second step needs batch_dmean and batch_dvar summed over ranks.
struct SwitchableNormBackwardSums : SwitchableGradients {
  void* dweight = nullptr;       // [C]
  void* dbias = nullptr;         // [C]
  void* dmean_weight = nullptr;  // [3]
  void* dvar_weight = nullptr;   // [3]
};
void run(CpuQueue&, const SwitchableNormBackwardSums&);
void run(CudaQueue&, const SwitchableNormBackwardSums&);

// Backward, second step, with N positions in the batch and T tokens in the sample:
//    dx = dy weight r + w_in/T image_dmean + 2 v_in/T (x - mu_in) image_dvar
//                     + w_ln/C token_dmean + 2 v_ln/C (x - mu_ln) token_dvar
//                     + w_bn/N batch_dmean + 2 v_bn/N (x - mu_bn) batch_dvar + dx_add
// Without batch statistics, the batch terms are left out: running statistics are constants.
struct SwitchableNormBackward : SwitchableGradients {
  std::int64_t positions;        // N = B T without pads, over all ranks
  const void* dx_add = nullptr;  // [B, T, C]: gradient from the residual; may be dx
  void* dx;                      // [B, T, C]; may be dy
};
void run(CpuQueue&, const SwitchableNormBackward&);
void run(CudaQueue&, const SwitchableNormBackward&);

}  // namespace dtn
