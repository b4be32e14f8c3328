// Tensors for tests: random values, and comparison in float64 or by bits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "dtn/autograd/context.h"
#include "dtn/core/parallel.h"
#include "dtn/core/philox.h"
#include "dtn/core/tensor.h"

namespace dtn::test {

using Doubles = std::vector<double>;

inline const std::vector<int> kThreadCounts = {1, 2, 3, 4, 8};

// Unit roundoff: the largest relative error of one rounding to nearest.
inline double unit_roundoff(DType t) {
  return t == DType::kFloat64 ? 0x1p-53 : t == DType::kFloat32 ? 0x1p-24 : 0x1p-8;
}

inline double element(const Tensor& t, std::int64_t i) {
  switch (t.dtype()) {
    case DType::kFloat64: return t.data<double>()[i];
    case DType::kBFloat16: return static_cast<float>(t.data<bfloat16>()[i]);
    default: return t.data<float>()[i];
  }
}

inline Doubles doubles(const Tensor& t) {
  Doubles values(static_cast<std::size_t>(t.numel()));
  for (std::int64_t i = 0; i < t.numel(); ++i) values[static_cast<std::size_t>(i)] = element(t, i);
  return values;
}

inline Tensor from_doubles(const Doubles& values, const Shape& shape, DType dtype) {
  Tensor t = Tensor::empty(shape, dtype);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    double v = values[static_cast<std::size_t>(i)];
    switch (dtype) {
      case DType::kFloat64: t.data<double>()[i] = v; break;
      case DType::kBFloat16: t.data<bfloat16>()[i] = bfloat16(static_cast<float>(v)); break;
      default: t.data<float>()[i] = static_cast<float>(v);
    }
  }
  return t;
}

inline Tensor as(const Tensor& t, DType dtype) {
  return t.dtype() == dtype ? t : from_doubles(doubles(t), t.shape(), dtype);
}

// Writes through a handle, converting to its type.
inline void assign(Tensor to, const Tensor& from) { to.copy_from(as(from, to.dtype())); }

// Rounds each value to the nearest bfloat16, so that every type has the same numbers.
inline Tensor representable(const Tensor& t) { return as(as(t, DType::kBFloat16), t.dtype()); }

// Uniform in [mean - spread, mean + spread), float64.
inline Tensor random_tensor(const Shape& shape, std::uint32_t stream, double spread = 1,
                            double mean = 0) {
  Tensor t = Tensor::empty(shape, DType::kFloat64);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    double u = philox_uniform({20, stream, 0}, static_cast<std::uint64_t>(i));
    t.data<double>()[i] = mean + spread * (2 * u - 1);
  }
  return t;
}

inline double max_abs(const Doubles& values) {
  double largest = 0;
  for (double v : values) {
    if (std::isnan(v)) return v;
    largest = std::max(largest, std::abs(v));
  }
  return largest;
}

inline double max_abs_difference(const Doubles& a, const Doubles& b) {
  if (a.size() != b.size()) return INFINITY;
  Doubles d(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return max_abs(d);
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), a.nbytes()) == 0;
}

// Sets the number of threads until the end of the scope.
class Threads {
 public:
  explicit Threads(int threads) : saved_(max_threads()) { set_num_threads(threads); }
  ~Threads() { set_num_threads(saved_); }

 private:
  int saved_;
};

}  // namespace dtn::test
