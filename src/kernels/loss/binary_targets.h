// Targets of a row with labels: all classes except those of its labels have one value.
#pragma once

#include "dtn/core/host_device.h"
#include "kernels/loss/binary_cross_entropy.h"

namespace dtn {

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

}  // namespace dtn
