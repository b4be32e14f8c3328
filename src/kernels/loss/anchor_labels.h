// Labels of the anchors of one level, a slice of the labels of all levels.
#pragma once

#include <cstdint>

#include "dtn/core/host_device.h"

namespace dtn {

// Labels that are no class.
inline constexpr std::int64_t kLabelBackground = -1, kLabelIgnored = -2;

struct AnchorLabels {
  std::int64_t batch, anchors;  // B, n
  const std::int64_t* labels;   // label (b, i) at labels + b stride + i
  std::int64_t stride;          // N, anchors of all levels

  DTN_HOST_DEVICE std::int64_t rows() const { return batch * anchors; }
  DTN_HOST_DEVICE std::int64_t at(std::int64_t b, std::int64_t i) const {
    return labels[b * stride + i];
  }
};

}  // namespace dtn
