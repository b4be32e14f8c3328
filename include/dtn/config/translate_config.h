// Image-to-image models: the section `translate` of a config.
#pragma once

namespace dtn {

// The loss of an image-to-image model: the weighted sum of three means over all elements of the
// difference d between output and target.
struct TranslateConfig {
  double l1 = 1;           // weight of |d|
  double l2 = 0;           // of d^2
  double charbonnier = 0;  // of sqrt(d^2 + charbonnier_eps^2)
  double charbonnier_eps = 1e-3;
  bool operator==(const TranslateConfig&) const = default;
};

}  // namespace dtn
