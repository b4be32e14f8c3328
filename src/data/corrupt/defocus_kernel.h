// The kernel of defocus blur. Private to dtn_data.
#pragma once

#include <vector>

namespace dtn::corrupt {

// weights [2 reach + 1, 2 reach + 1], symmetric. At severities 4 and 5 they sum to 1.013 and 1.011,
// so the image becomes lighter.
struct DefocusKernel {
  int reach = 0;
  std::vector<double> weights;
  double at(int dy, int dx) const {
    return weights[static_cast<std::size_t>((dy + reach) * (2 * reach + 1) + dx + reach)];
  }
};
DefocusKernel defocus_kernel(int severity);

}  // namespace dtn::corrupt
