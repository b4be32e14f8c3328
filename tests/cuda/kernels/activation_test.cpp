#include "kernels/pointwise/activation.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};
const Activation kKinds[] = {Activation::kRelu,     Activation::kSilu,      Activation::kTanh,
                             Activation::kGeluTanh, Activation::kQuickGelu, Activation::kHardswish};

// Random x in (-spread, spread), from tiny values to values beyond saturation, and dy.
struct Problem {
  DType dtype;
  std::int64_t count, shift;
  Twin x, dy, y, dx;

  Problem(DType d, std::int64_t n, double spread, std::int64_t shifted = 0)
      : dtype(d), count(n), shift(shifted) {
    x = random_twin({n + shift}, d, 1, spread);
    dy = random_twin({n + shift}, d, 2);
    y = Twin::output({n + shift}, d), dx = Twin::output({n + shift}, d);
  }
  void* at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) + static_cast<std::size_t>(shift) * size_of(dtype);
  }
  void run_on(Where w, Activation kind) const {
    const ActivationForward forward{dtype, kind, count, at(x, w), at(y, w)};
    const ActivationBackward backward{dtype, kind, count, at(x, w), at(dy, w), at(dx, w)};
    w == kOnDevice ? run(cuda_queue(), forward) : run(cpu_queue(), forward);
    w == kOnDevice ? run(cuda_queue(), backward) : run(cpu_queue(), backward);
  }
};

TEST(CudaActivation, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (Activation kind : kKinds) {
      for (double spread : {0.01, 3.0, 120.0}) {
        for (std::int64_t shift : {0, 1}) {
          const Problem p(dtype, 1003, spread, shift);
          Problem exact = p;
          exact.dtype = DType::kFloat64;
          for (Twin* t : {&exact.x, &exact.dy}) *t = Twin(as(t->host(), DType::kFloat64));
          for (Twin* t : {&exact.y, &exact.dx}) *t = Twin::output({1003 + shift}, DType::kFloat64);
          exact.run_on(kOnHost, kind);
          p.run_on(kOnHost, kind);
          p.run_on(kOnDevice, kind);
          const std::string what = cat("kind ", static_cast<int>(kind), " within ", spread);
          // Each function makes a few roundings of float32.
          const double bound = rounding_bound(dtype, 1, 6);
          auto tail = [&](const Tensor& t) {
            Doubles v = doubles(t);
            v.erase(v.begin(), v.begin() + shift);
            return v;
          };
          for (auto output : {&Problem::y, &Problem::dx}) {
            const Doubles want = tail((exact.*output).host());
            const double error = relative_error(tail((p.*output).device()), want);
            EXPECT_LE(error, bound) << what;
            record_error("activation", what, dtype, error, bound);
            EXPECT_LE(relative_error(tail((p.*output).host()), want), bound) << what;
          }
        }
      }
    }
  }
}

TEST(CudaActivation, InfinityAndNaN) {
  DTN_SKIP_WITHOUT_DEVICE();
  const double inf = INFINITY;
  const double limits[6][4] = {{0, 0, inf, 1}, {0, 0, inf, 1}, {-1, 0, 1, 0}, {0, 0, inf, 1},
                               {0, 0, inf, 1}, {0, 0, inf, 1}};  // y, dx at -inf, inf
  for (Activation kind : kKinds) {
    Problem p(DType::kFloat32, 3, 1);
    p.x = Twin(from_doubles({-inf, inf, NAN}, {3}, DType::kFloat32));
    p.dy = Twin(from_doubles({1, 1, 1}, {3}, DType::kFloat32));
    for (Where w : {kOnHost, kOnDevice}) {
      p.run_on(w, kind);
      const Doubles y = doubles(w == kOnHost ? p.y.host() : p.y.device());
      const Doubles dx = doubles(w == kOnHost ? p.dx.host() : p.dx.device());
      const double* want = limits[static_cast<int>(kind)];
      EXPECT_NEAR(y[0], want[0], 1e-30);
      EXPECT_NEAR(dx[0], want[1], 1e-30);
      EXPECT_EQ(y[1], want[2]);
      EXPECT_NEAR(dx[1], want[3], 1e-30);
      EXPECT_TRUE(std::isnan(y[2]));
    }
  }
}

TEST(CudaActivation, RunsInPlaceAcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    const Problem p(dtype, 1003, 3);
    p.run_on(kOnDevice, Activation::kSilu);
    run(cuda_queue(), ActivationBackward{dtype, Activation::kSilu, 1003, p.x.at(kOnDevice),
                                         p.dy.at(kOnDevice), p.dy.at(kOnDevice)});
    EXPECT_TRUE(same_bits(p.dy.device(), p.dx.device()));
    run(cuda_queue(),
        ActivationForward{dtype, Activation::kSilu, 1003, p.x.at(kOnDevice), p.x.at(kOnDevice)});
    EXPECT_TRUE(same_bits(p.x.device(), p.y.device()));
  }
  run(cuda_queue(), ActivationForward{DType::kFloat32, Activation::kTanh, 0, nullptr, nullptr});
  EXPECT_THROW(
      run(cuda_queue(), ActivationForward{DType::kFloat64, Activation::kTanh, 0, nullptr, nullptr}),
      Error);
}

}  // namespace
}  // namespace dtn::test
