// Matrices of any type for the tests of products, and the expected results in float64.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "dtn/core/dtype.h"
#include "dtn/core/parallel.h"

namespace dtn::testing {

// A typed array for a kernel, with its elements seen as double.
class Array {
 public:
  Array(DType dtype, std::int64_t count) : dtype_(dtype), bytes_(count * size_of(dtype)) {}
  DType dtype() const { return dtype_; }
  std::int64_t count() const { return static_cast<std::int64_t>(bytes_.size() / size_of(dtype_)); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  double get(std::int64_t i) const {
    switch (dtype_) {
      case DType::kBFloat16: return static_cast<float>(as<bfloat16>()[i]);
      case DType::kFloat64: return as<double>()[i];
      default: return as<float>()[i];
    }
  }
  void set(std::int64_t i, double v) {
    switch (dtype_) {
      case DType::kBFloat16: as<bfloat16>()[i] = bfloat16(static_cast<float>(v)); break;
      case DType::kFloat64: as<double>()[i] = v; break;
      default: as<float>()[i] = static_cast<float>(v);
    }
  }
  void fill(double v) {
    for (std::int64_t i = 0; i < count(); ++i) set(i, v);
  }
  Array& randomize(unsigned seed, double scale = 1) {
    std::mt19937 engine(seed);
    std::normal_distribution<double> normal(0, scale);
    for (std::int64_t i = 0; i < count(); ++i) set(i, normal(engine));
    return *this;
  }
  bool same_bits(const Array& other) const {
    return bytes_.size() == other.bytes_.size() &&
           std::memcmp(data(), other.data(), bytes_.size()) == 0;
  }

 private:
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }
  DType dtype_;
  std::vector<unsigned char> bytes_;
};

// Spacing at 1.
inline double epsilon_of(DType t) {
  switch (t) {
    case DType::kBFloat16: return 1.0 / 128;
    case DType::kFloat64: return 2.220446049250313e-16;
    default: return 1.1920928955078125e-7;
  }
}

// Tolerance for a sum of k products of unit normals, accumulated in the accumulator type and stored
// as `stored`. Each of the k roundings is at most eps / 2 of a partial sum below 4 sqrt(k), and
// they add up like a random walk. Four standard deviations are 4.6 eps k. Storing rounds once more.
inline double product_tolerance(DType dtype, DType stored, std::int64_t k, double value) {
  double sum = 4.6 * epsilon_of(accumulator_of(dtype)) * static_cast<double>(k + 1);
  return sum + 0.51 * epsilon_of(stored) * std::abs(value);
}

inline double exact_gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
inline double exact_gelu_slope(double x) {
  long double y = x;
  return static_cast<double>(0.5L * std::erfc(-y / std::sqrt(2.0L)) +
                             y * std::exp(-0.5L * y * y) / std::sqrt(2 * std::acos(-1.0L)));
}

// Runs f with `threads` threads, then restores the number of threads.
template <class F>
void with_threads(int threads, F&& f) {
  int before = max_threads();
  set_num_threads(threads);
  f();
  set_num_threads(before);
}

}  // namespace dtn::testing
