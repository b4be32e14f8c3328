// Binary cross-entropy: each class is a question of its own, whose logit is held against a target
// between 0 and 1.
//   loss[b] = scale sum_k (t_bk softplus(-z_bk) + (1 - t_bk) softplus(z_bk))
//   softplus(z) = log(1 + e^z)
//   dz_bk = scale ((1 - t_bk) sigmoid(z_bk) - t_bk sigmoid(-z_bk))
// t is as for cross-entropy (cross_entropy.h): given targets, or with labels
//   t = (1 - smoothing) hot + smoothing / K
// where hot is shared between two labels for images that were mixed. With `binarize` t becomes 1
// where it is above `threshold`, and 0 elsewhere (Touvron et al., "DeiT III", 2022).
//
// A target of 0 or 1 counts as nothing where it is multiplied, even beside an infinity. NaN among
// the logits of a row makes its loss NaN. A label outside [0, K), which the caller should have
// refused, gives a NaN loss and a NaN gradient row.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// What the logits are held against.
struct BinaryTargets {
  const std::int64_t* labels = nullptr;  // [rows], in [0, K); or
  const void* targets = nullptr;         // [rows, K], accumulator type
  double smoothing = 0;                  // with labels
  // Both or none, with labels.
  const std::int64_t* partner_labels = nullptr;  // [rows], in [0, K)
  const float* label_share = nullptr;            // [rows], in [0, 1]
  bool binarize = false;
  double threshold = 0;
};

struct BinaryCrossEntropyForward {
  DType dtype;  // of logits
  std::int64_t rows, classes;
  const void* logits;  // [rows, K]
  BinaryTargets against;
  double scale;  // 1, or 1 / K for the mean over the classes
  void* loss;    // [rows], accumulator type
};
void run(CpuQueue&, const BinaryCrossEntropyForward&);
void run(CudaQueue&, const BinaryCrossEntropyForward&);

struct BinaryCrossEntropyBackward {
  DType dtype;
  std::int64_t rows, classes;
  const void* logits;
  BinaryTargets against;
  double scale;                    // e.g. 1 / (batch K)
  void* dlogits;                   // [rows, K]; may be logits
  const void* upstream = nullptr;  // [1], accumulator type: another factor, where dlogits live
};
void run(CpuQueue&, const BinaryCrossEntropyBackward&);
void run(CudaQueue&, const BinaryCrossEntropyBackward&);

}  // namespace dtn
