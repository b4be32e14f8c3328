// Sums in an order that does not depend on the order of arrival.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dtn/core/dtype.h"

namespace dtn {

// to[i] = sum_k addends[k][i], in the order of k, for `count` elements; `to` may be one of the
// addends. bfloat16 is added as float32 and rounded once.
template <class T>
void ordered_sum(const std::vector<const T*>& addends, T* to, std::size_t count) {
  using Sum = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
  constexpr std::size_t kRun = 512;  // fits the L1 cache
  Sum sums[kRun];
  for (std::size_t begin = 0; begin < count; begin += kRun) {
    const std::size_t n = std::min(kRun, count - begin);
    for (std::size_t i = 0; i < n; ++i) sums[i] = static_cast<Sum>(addends[0][begin + i]);
    for (std::size_t k = 1; k < addends.size(); ++k) {
      const T* addend = addends[k] + begin;
      for (std::size_t i = 0; i < n; ++i) sums[i] += static_cast<Sum>(addend[i]);
    }
    for (std::size_t i = 0; i < n; ++i) to[begin + i] = static_cast<T>(sums[i]);
  }
}

}  // namespace dtn
