// Runs a kernel on the device and its CPU version on the same inputs, with poisoned outputs, and
// compares the results. The emulator runs each test under several hostile schedules. A GPU runs it
// several times and must give the same bits.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "core/cuda_device.h"
#include "cuda/ledger.h"
#include "tensors.h"
#ifdef DTN_CUDA_EMULATED
#include "cuda_emulator/device_model.h"
#include "cuda_emulator/emulator.h"
#endif

namespace dtn::test {

enum Where : bool { kOnHost, kOnDevice };

// One tensor in both memories.
class Twin {
 public:
  Twin() = default;
  // An input: the same numbers on both sides.
  explicit Twin(const Tensor& host) : host_(host), device_(host.to(kCuda)) {}
  // An output: NaN in every element (all ones) until a kernel writes it.
  static Twin output(const Shape& shape, DType dtype) {
    Tensor poison = Tensor::empty(shape, dtype);
    std::memset(poison.raw(), 0xff, poison.nbytes());
    return Twin(poison);
  }
  // A tensor that a kernel adds to.
  static Twin accumulated(const Shape& shape, DType dtype, std::uint32_t stream) {
    return Twin(as(random_tensor(shape, stream), dtype));
  }

  void* at(Where where) const {
    if (!host_.defined()) return nullptr;
    Tensor t = where == kOnDevice ? device_ : host_;
    return t.raw();
  }
  const Tensor& host() const { return host_; }
  // Copies the device tensor to the host; waits for the device.
  Tensor device() const { return device_.to(kCpu); }

 private:
  Tensor host_, device_;
};

// Random input of type `dtype`, from one stream of random numbers: uniform around `mean`.
inline Twin random_twin(const Shape& shape, DType dtype, std::uint32_t stream, double spread = 1,
                        double mean = 0) {
  return Twin(as(random_tensor(shape, stream, spread, mean), dtype));
}

// Skips the test if there is no device, and prints the reason.
#define DTN_SKIP_WITHOUT_DEVICE()                                         \
  if (std::string reason = cuda::unavailable_reason(); !reason.empty()) { \
    GTEST_SKIP() << reason;                                               \
  }

// Number of runs of a kernel in under_every_schedule(): 3 on a GPU. The emulator makes one run in
// step and three under hostile schedules. With sanitizers it makes one of each, because all
// schedules touch the same memory. DTN_EMULATOR_SCHEDULES sets another number for the emulator.
inline unsigned schedules_to_run() {
#ifdef DTN_CUDA_EMULATED
  if (const char* text = std::getenv("DTN_EMULATOR_SCHEDULES")) {
    return static_cast<unsigned>(std::max(1, std::atoi(text)));
  }
#ifdef DTN_SANITIZED
  return 2;
#else
  return 4;
#endif
#else
  return 3;
#endif
}

// Runs `body` several times, see schedules_to_run(). `body` allocates its outputs and returns the
// tensors that must have the same bits every time.
inline void under_every_schedule(const std::function<std::vector<Tensor>()>& body) {
  const unsigned runs = schedules_to_run();
  std::vector<Tensor> first;
  for (unsigned i = 0; i < runs; ++i) {
#ifdef DTN_CUDA_EMULATED
    emu::set_schedule({i});
#endif
    SCOPED_TRACE(cat("schedule ", i));
    std::vector<Tensor> results = body();
    if (i == 0) {
      first = std::move(results);
    } else {
      ASSERT_EQ(results.size(), first.size());
      for (std::size_t k = 0; k < results.size(); ++k) {
        EXPECT_TRUE(same_bits(results[k], first[k]))
            << "result " << k << " depends on the schedule";
      }
    }
    if (::testing::Test::HasFailure()) break;
  }
#ifdef DTN_CUDA_EMULATED
  emu::set_schedule({0});
#endif
}

// Returns the largest |got - want| / scale, where scale is the largest |want| (at least `floor`).
// Returns infinity if NaN or infinities do not match.
inline double relative_error(const Doubles& got, const Doubles& want, double floor = 1e-30) {
  if (got.size() != want.size()) return INFINITY;
  double largest = floor, error = 0;
  for (double v : want) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (got[i] == want[i]) continue;
    double e = std::abs(got[i] - want[i]);
    error = std::isfinite(e) ? std::max(error, e) : INFINITY;
  }
  return error / largest;
}

// Compares a device result with the expected float64 values, within `bound` of the largest value,
// and records the error in the ledger. The bound comes from the type and the length of the sums,
// see rounding_bound().
inline void expect_close(const char* kernel, const std::string& what, const Tensor& got,
                         const Doubles& want, double bound, double floor = 1e-30) {
  double error = relative_error(doubles(got), want, floor);
  EXPECT_LE(error, bound) << kernel << ": " << what;
  record_error(kernel, what, got.dtype(), error, bound);
}

// Unit roundoff of the result's type for the last rounding, plus `factor` times that of float32
// times the square root of the number of summed terms.
inline double rounding_bound(DType dtype, std::int64_t terms, double factor = 2) {
  return unit_roundoff(dtype) +
         factor * unit_roundoff(DType::kFloat32) *
             std::sqrt(static_cast<double>(std::max<std::int64_t>(terms, 1)));
}

// Error of a sum of `products` products on tensor cores in addition to rounding, relative to the
// largest value. Tensor cores truncate where float32 arithmetic rounds, so each addition loses up
// to 2^-23, always in the same direction. The weakest of our target devices adds eight products of
// bfloat16 numbers at a time, or four of tf32. Returns 0 if the emulated device rounds.
inline double truncation_bound(DType operands, std::int64_t products) {
#ifdef DTN_CUDA_EMULATED
  const int of_bfloat16 = emu::device_model().products_at_once;
  if (of_bfloat16 == 0) return 0;
#else
  const int of_bfloat16 = 8;
#endif
  const int at_once = operands == DType::kBFloat16 ? of_bfloat16 : of_bfloat16 / 2;
  return 0x1p-23 * static_cast<double>((products + at_once - 1) / at_once);
}

}  // namespace dtn::test
