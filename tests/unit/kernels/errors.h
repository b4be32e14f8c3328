// Errors of kernel results.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "unit/kernels/each_isa.h"

namespace dtn::test {

using Doubles = std::vector<double>;

template <class T>
Doubles doubles(const std::vector<T>& from) {
  Doubles out;
  for (T v : from) out.push_back(as_double(v));
  return out;
}

// Largest magnitude; infinite if there is a NaN.
inline double largest(const Doubles& v) {
  double m = 0;
  for (double a : v) m = std::isnan(a) ? INFINITY : std::max(m, std::fabs(a));
  return m;
}

// max |a - b| / max(max |b|, scale)
inline double error(const Doubles& a, const Doubles& b, double scale = 0) {
  Doubles d(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return largest(d) == 0 ? 0 : largest(d) / std::max(largest(b), scale);
}

}  // namespace dtn::test
