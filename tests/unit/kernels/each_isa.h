// Calls of the kernel build for one instruction set, without the dispatcher, and test helpers.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "dtn/core/parallel.h"
#include "kernels/cpu/isa.h"
#include "tensors.h"

// Declares dtn::run_on(Isa, const Arguments&).
#define DTN_RUN_ON_EACH_ISA(Arguments)                      \
  namespace dtn {                                           \
  DTN_DECLARE_BUILDS(Arguments)                             \
  inline void run_on(Isa isa, const Arguments& args) {      \
    switch (isa) { DTN_CASES_OF_BUILDS(cpu_queue(), args) } \
  }                                                         \
  }

namespace dtn::test {

// Instruction sets that both this machine and this build support.
inline std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= current_isa() && is_built(isa)) list.push_back(isa);
  }
  return list;
}

template <class T>
std::vector<T> normal_values(std::int64_t n, unsigned seed, double mean = 0, double std = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, std);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& v : values) v = static_cast<T>(static_cast<AccumulatorOf<T>>(normal(generator)));
  return values;
}

// Returns a tensor of NaNs, for a kernel to overwrite.
inline Tensor poison(const Shape& shape, DType dtype) {
  Tensor t = Tensor::empty(shape, dtype);
  std::memset(t.raw(), 0xff, t.nbytes());
  return t;
}

template <class T>
double as_double(T v) {
  return static_cast<double>(static_cast<AccumulatorOf<T>>(v));
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Spacing of T at 1. Rounding to nearest has an error of at most half of it.
template <class T>
constexpr double epsilon_of() {
  if (std::is_same_v<T, double>) return 0x1p-52;
  return std::is_same_v<T, float> ? 0x1p-23 : 0x1p-7;
}

inline const std::vector<std::int64_t> kOddCounts = {1, 7, 15, 16, 17, 1000003};

}  // namespace dtn::test
