// Binary cross-entropy. Each class is a separate binary decision, with a logit z and a target t
// between 0 and 1:
//    loss[b] = scale sum_k (t_bk softplus(-z_bk) + (1 - t_bk) softplus(z_bk))
//    softplus(z) = log(1 + e^z)
//    dz_bk = scale ((1 - t_bk) sigmoid(z_bk) - t_bk sigmoid(-z_bk))
// t is as for cross-entropy (cross_entropy.h): given targets, or with labels
//    t = (1 - smoothing) hot + smoothing / K
// Two labels share `hot` if the images were mixed. `binarize` turns t into 1 if it is above
// `threshold`, else into 0 (Touvron et al., "DeiT III", 2022).
//
// A factor t or 1 - t of 0 makes its product 0, even with an infinity. NaN among the logits of a
// row makes its loss NaN. The caller should reject a label outside [0, K). It gives a NaN loss and
// a NaN gradient row.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// Targets of the logits.
struct BinaryTargets {
  const std::int64_t* labels = nullptr;  // [rows], in [0, K); or `targets`
  const void* targets = nullptr;         // [rows, K], accumulator type
  double smoothing = 0;                  // only with labels
  // Both or neither; only with labels.
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
  const void* upstream = nullptr;  // [1], accumulator type: factor, on the device of dlogits
};
void run(CpuQueue&, const BinaryCrossEntropyBackward&);
void run(CudaQueue&, const BinaryCrossEntropyBackward&);

}  // namespace dtn
