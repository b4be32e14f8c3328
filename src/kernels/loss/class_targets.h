// Targets of losses over classes.
#pragma once

#include <cstdint>

#include "dtn/core/host_device.h"

namespace dtn {

// Targets of a loss over classes: given, or with labels
//    t = (1 - smoothing) hot + smoothing / K
//    hot = onehot(label)
// or with partner labels, for images that were mixed,
//    hot = label_share onehot(label) + (1 - label_share) onehot(partner)
struct ClassTargets {
  const std::int64_t* labels = nullptr;  // [rows], in [0, K); or `targets`
  const void* targets = nullptr;         // [rows, K], accumulator type
  double smoothing = 0;                  // only with labels
  // Both or neither; only with labels.
  const std::int64_t* partner_labels = nullptr;  // [rows], in [0, K)
  const float* label_share = nullptr;            // [rows], in [0, 1]
};

// Targets of a row with labels: all classes except those of its labels have one value.
template <class A>
struct RowTargets {
  std::int64_t own, partner;  // labels; equal if there is only one
  A elsewhere, at_own, at_partner;
  bool valid;  // all labels lie in [0, K); otherwise both labels are -1, which matches no column

  template <class B>
  DTN_HOST_DEVICE RowTargets<B> rounded() const {
    return {own,
            partner,
            static_cast<B>(elsewhere),
            static_cast<B>(at_own),
            static_cast<B>(at_partner),
            valid};
  }
};

// Returns the targets of a row with labels, computed in float64.
template <class A>
DTN_HOST_DEVICE static inline RowTargets<A> row_targets(const ClassTargets& t, std::int64_t row,
                                                        std::int64_t classes) {
  RowTargets<double> r{t.labels[row], t.labels[row], 0, 0, 0, false};
  if (t.partner_labels) r.partner = t.partner_labels[row];
  const double share = r.partner == r.own ? 1.0 : static_cast<double>(t.label_share[row]);
  const double hot = 1 - t.smoothing;
  r.elsewhere = t.smoothing / static_cast<double>(classes);
  r.at_own = share * hot + r.elsewhere;
  r.at_partner = r.partner == r.own ? r.at_own : (1 - share) * hot + r.elsewhere;
  r.valid = r.own >= 0 && r.own < classes && r.partner >= 0 && r.partner < classes;
  if (!r.valid) r.own = r.partner = -1;
  return r.template rounded<A>();
}

}  // namespace dtn
