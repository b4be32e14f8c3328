// Binary cross-entropy. Each class is a separate binary decision, with a logit z and a target t
// between 0 and 1:
//    loss[b] = scale sum_k (t_bk softplus(-z_bk) + (1 - t_bk) softplus(z_bk))
//    softplus(z) = log(1 + e^z)
//    dz_bk = scale ((1 - t_bk) sigmoid(z_bk) - t_bk sigmoid(-z_bk))
// t is as for cross-entropy, see ClassTargets in class_targets.h. `binarize` turns t into 1 if it
// is above `threshold`, else into 0 (Touvron et al., "DeiT III", 2022).
//
// A factor t or 1 - t of 0 makes its product 0, even with an infinity. NaN among the logits of a
// row makes its loss NaN. The caller should reject a label outside [0, K). It gives a NaN loss and
// a NaN gradient row.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "dtn/core/host_device.h"
#include "kernels/loss/class_targets.h"

namespace dtn {

// Targets of the logits.
struct BinaryTargets : ClassTargets {
  bool binarize = false;
  double threshold = 0;
};

// Computes in float64 on every device, so that the threshold gives the same targets everywhere.
template <class A>
DTN_HOST_DEVICE static inline RowTargets<A> row_targets(const BinaryTargets& t, std::int64_t row,
                                                        std::int64_t classes) {
  RowTargets<double> r = row_targets<double>(static_cast<const ClassTargets&>(t), row, classes);
  if (t.binarize) {
    r.at_own = r.at_own > t.threshold ? 1 : 0;
    r.at_partner = r.at_partner > t.threshold ? 1 : 0;
    r.elsewhere = r.elsewhere > t.threshold ? 1 : 0;
  }
  return r.template rounded<A>();
}

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
