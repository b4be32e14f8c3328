// Binary cross-entropy. Each class is a separate binary decision, with a logit z and a target t
// between 0 and 1:
//    loss[b] = scale sum_k (t_bk softplus(-z_bk) + (1 - t_bk) softplus(z_bk))
//    softplus(z) = log(1 + e^z)
//    dz_bk = scale ((1 - t_bk) sigmoid(z_bk) - t_bk sigmoid(-z_bk))
// t is as for cross-entropy, see ClassTargets in cross_entropy.h. `binarize` turns t into 1 if it
// is above `threshold`, else into 0 (Touvron et al., "DeiT III", 2022).
//
// A factor t or 1 - t of 0 makes its product 0, even with an infinity. NaN among the logits of a
// row makes its loss NaN. The caller should reject a label outside [0, K). It gives a NaN loss and
// a NaN gradient row.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/host_device.h"
#include "kernels/loss/cross_entropy.h"

namespace dtn {

// Targets of the logits.
struct BinaryTargets : ClassTargets {
  bool binarize = false;
  double threshold = 0;
};

// Targets of a row with labels: all classes except those of its labels have one value.
template <class A>
struct RowTargets {
  std::int64_t own, partner;  // labels; equal if there is only one
  A elsewhere, at_own, at_partner;
  bool valid;  // all labels lie in [0, K)
};

// Computes in float64 on every device, so that the threshold gives the same targets everywhere.
template <class A>
DTN_HOST_DEVICE static inline RowTargets<A> row_targets(const BinaryTargets& t, std::int64_t row,
                                                        std::int64_t classes) {
  RowTargets<A> r{t.labels[row], t.labels[row], 0, 0, 0, false};
  if (t.partner_labels) r.partner = t.partner_labels[row];
  const double share = r.partner == r.own ? 1.0 : static_cast<double>(t.label_share[row]);
  const double everywhere = t.smoothing / static_cast<double>(classes), hot = 1 - t.smoothing;
  double at_own = share * hot + everywhere, at_partner = (1 - share) * hot + everywhere;
  double elsewhere = everywhere;
  if (t.binarize) {
    at_own = at_own > t.threshold ? 1 : 0;
    at_partner = at_partner > t.threshold ? 1 : 0;
    elsewhere = everywhere > t.threshold ? 1 : 0;
  }
  r.elsewhere = static_cast<A>(elsewhere);
  r.at_own = static_cast<A>(at_own);
  r.at_partner = r.partner == r.own ? r.at_own : static_cast<A>(at_partner);
  r.valid = r.own >= 0 && r.own < classes && r.partner >= 0 && r.partner < classes;
  if (!r.valid) r.own = r.partner = -1;  // matches no column
  return r;
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
