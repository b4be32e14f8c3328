#include "cuda/twin.h"
#include "kernels/gemm/linear.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/gelu_backward.h"

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

double cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double tanh_form_slope(double x) {
  const double u = kGeluTanhScale * (x + kGeluTanhCubic * x * x * x);
  const double s = 1 / (1 + std::exp(-u));
  return s * (1 + x * kGeluTanhScale * (1 + 3 * kGeluTanhCubic * x * x) * (1 - s));
}
double density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }

double exact_slope(double x) { return cdf(x) + x * density(x); }

// Values from -12 to 12 in equal steps, and values close to 0.
Tensor scan(DType dtype) {
  constexpr std::int64_t kSteps = 24001;
  Doubles x;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    x.push_back(-12 + 24.0 * static_cast<double>(i) / (kSteps - 1));
  }
  for (int i = 0; i < 200; ++i) x.push_back((i % 2 ? -1 : 1) * std::pow(10.0, -0.1 * i));
  const auto count = static_cast<std::int64_t>(x.size());
  return from_doubles(x, {count}, dtype);
}

// Bounds of the contract, as for the host. float32: four epsilons, and one more near x^2 = 140,
// where the exponent itself is inexact. bfloat16: the rounding of the result, plus an eighth of it.
double allowed(DType dtype, double x, double value, double scale) {
  if (dtype == DType::kBFloat16) return 0x1p-8 * (std::abs(value) + scale / 8);
  return (4 + x * x / 140) * 0x1p-23 * scale;
}

// Checks every value relative to itself. `scale` is the size of the terms of the result.
template <class Value, class Scale>
void expect_accurate(const char* what, const Tensor& x, const Tensor& got, Value value,
                     Scale scale) {
  double worst = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double at = element(x, i), want = value(at);
    const double bound = allowed(x.dtype(), at, want, std::max(scale(at), 1e-35));
    const double error = std::abs(element(got, i) - want) / bound;
    ASSERT_LE(error, 1) << what << " of " << at << ": " << element(got, i) << ", not " << want;
    worst = std::max(worst, error);
  }
  record_error(what, "of what is allowed", x.dtype(), worst, 1);
}

TEST(CudaGelu, RelativelyAccurate) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    Twin x(scan(dtype)), dy(Tensor::full(x.host().shape(), dtype, 1));
    Twin y = Twin::output(x.host().shape(), dtype), dx = Twin::output(x.host().shape(), dtype);
    const std::int64_t count = x.host().numel();
    run(cuda_queue(), GeluForward{dtype, count, x.at(kOnDevice), y.at(kOnDevice)});
    run(cuda_queue(),
        GeluBackward{dtype, count, x.at(kOnDevice), dy.at(kOnDevice), dx.at(kOnDevice)});
    auto gelu = [](double v) { return v * cdf(v); };
    expect_accurate("gelu_forward", x.host(), y.device(), gelu,
                    [&](double v) { return std::abs(gelu(v)); });
    // The two terms cancel near -0.75.
    expect_accurate(
        "gelu_backward", x.host(), dx.device(), [](double v) { return cdf(v) + v * density(v); },
        [](double v) { return cdf(v) + std::abs(v) * density(v); });
  }
}

TEST(CudaGelu, ValuesBeyondTails) {
  DTN_SKIP_WITHOUT_DEVICE();
  const double infinity = INFINITY;
  const Doubles values = {0, -0.0, infinity, -infinity, NAN, 1e30, -1e30, 14, -14};
  const auto n = static_cast<std::int64_t>(values.size());
  for (DType dtype : kTypes) {
    SCOPED_TRACE(name_of(dtype));
    Twin x(from_doubles(values, {n}, dtype)), dy(Tensor::full({n}, dtype, 2));
    Twin y = Twin::output({n}, dtype), dx = Twin::output({n}, dtype);
    Twin dz = Twin::output({n}, dtype), h = Twin::output({n}, dtype);
    for (Where w : {kOnHost, kOnDevice}) {
      const GeluForward forward{dtype, n, x.at(w), y.at(w)};
      const GeluBackward backward{dtype, n, x.at(w), dy.at(w), dx.at(w)};
      w == kOnHost ? run(cpu_queue(), forward) : run(cuda_queue(), forward);
      w == kOnHost ? run(cpu_queue(), backward) : run(cuda_queue(), backward);
    }
    run(cuda_queue(), MlpGeluBackward{dtype, 1, n, x.at(kOnDevice), dy.at(kOnDevice),
                                      dz.at(kOnDevice), h.at(kOnDevice)});
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto k = static_cast<std::int64_t>(i);
      for (const Tensor& t : {y.host(), y.device(), h.device()}) {
        const double got = element(t, k), v = element(x.host(), k);
        if (std::isnan(v)) {
          EXPECT_TRUE(std::isnan(got));
        } else if (v > 0) {
          EXPECT_EQ(got, v);
        } else {
          EXPECT_NEAR(got, 0, 1e-35) << v;
        }
      }
      for (const Tensor& t : {dx.host(), dx.device(), dz.device()}) {
        const double got = element(t, k), v = element(x.host(), k);
        if (std::isnan(v)) {
          EXPECT_TRUE(std::isnan(got));
        } else {
          EXPECT_NEAR(got, v == 0 ? 1 : v > 0 ? 2 : 0, v < 0 ? 1e-30 : 1e-6) << v;
        }
      }
    }
  }
}

// Counts with and without a partial vector, at aligned and unaligned addresses. dx may be dy.
TEST(CudaGelu, AnyCountAndAddress) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t count : {1, 7, 1003, 8192}) {
      for (std::int64_t shift : {0, 1}) {
        SCOPED_TRACE(cat(name_of(dtype), " ", count, " + ", shift));
        Twin x = random_twin({count + shift}, dtype, 1, 4);
        Twin dy = random_twin({count + shift}, dtype, 2);
        Twin y = Twin::output({count + shift}, dtype);
        auto at = [&](const Twin& t, Where w) {
          return static_cast<std::byte*>(t.at(w)) +
                 static_cast<std::size_t>(shift) * size_of(dtype);
        };
        auto forward = [&](Where w) { return GeluForward{dtype, count, at(x, w), at(y, w)}; };
        auto backward = [&](Where w) {
          return GeluBackward{dtype, count, at(x, w), at(dy, w), at(dy, w)};
        };
        run(cpu_queue(), forward(kOnHost));
        run(cpu_queue(), backward(kOnHost));
        run(cuda_queue(), forward(kOnDevice));
        run(cuda_queue(), backward(kOnDevice));
        // Each side may be off by half of this bound.
        const double bound = dtype == DType::kBFloat16 ? 2 * 0x1.2p-8 : 10 * 0x1p-23;
        expect_close("gelu_forward", cat(count), y.device(), doubles(y.host()), bound);
        expect_close("gelu_backward", cat(count), dy.device(), doubles(dy.host()), bound);
      }
    }
  }
}

struct MlpGelu {
  DType dtype;
  std::int64_t rows, columns;
  Twin z, dh, dz, h, dbias;

  MlpGelu(DType d, std::int64_t r, std::int64_t c) : dtype(d), rows(r), columns(c) {
    z = random_twin({r, c}, d, 1, 4);
    dh = random_twin({r, c}, d, 2);
    dz = Twin::output({r, c}, d);
    h = Twin::output({r, c}, d);
    dbias = Twin::accumulated({c}, DType::kFloat32, 3);
  }
  MlpGeluBackward args() const {
    return {dtype,
            rows,
            columns,
            z.at(kOnDevice),
            dh.at(kOnDevice),
            dz.at(kOnDevice),
            h.at(kOnDevice),
            dbias.at(kOnDevice)};
  }
  // Returns dbias plus the sum over the rows of dh gelu'(z), in float64.
  Doubles exact_dbias(double (*slope)(double)) const {
    Doubles sums = doubles(dbias.host());
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const double at = element(z.host(), i);
      sums[static_cast<std::size_t>(i % columns)] += element(dh.host(), i) * slope(at);
    }
    return sums;
  }
};

TEST(CudaGelu, MlpBackwardMatchesSeparatePasses) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t shapes[][2] = {{197, 40}, {130, 264}, {33, 100}, {5, 1728}, {1, 7}, {67, 129}};
  for (DType dtype : kTypes) {
    for (auto [rows, columns] : shapes) {
      SCOPED_TRACE(cat(name_of(dtype), " ", rows, " x ", columns));
      const std::int64_t count = rows * columns;
      MlpGelu p(dtype, rows, columns);
      Twin h = Twin::output({rows, columns}, dtype), dz = Twin::output({rows, columns}, dtype);
      run(cuda_queue(), GeluForward{dtype, count, p.z.at(kOnDevice), h.at(kOnDevice)});
      run(cuda_queue(),
          GeluBackward{dtype, count, p.z.at(kOnDevice), p.dh.at(kOnDevice), dz.at(kOnDevice)});
      run(cuda_queue(), p.args());
      EXPECT_TRUE(same_bits(p.h.device(), h.device()));
      EXPECT_TRUE(same_bits(p.dz.device(), dz.device()));
      // bfloat16 computes each term to 2^-12.
      const double term = dtype == DType::kBFloat16 ? 0x1p-12 : 0x1p-21;
      expect_close("mlp_gelu_backward", cat("dbias ", rows, " x ", columns), p.dbias.device(),
                   p.exact_dbias(exact_slope), term + rounding_bound(DType::kFloat32, rows));

      MlpGelu in_place(dtype, rows, columns);
      MlpGeluBackward args = in_place.args();
      args.dz = const_cast<void*>(args.dh);
      args.h = const_cast<void*>(args.z);
      run(cuda_queue(), args);
      EXPECT_TRUE(same_bits(in_place.z.device(), h.device()));
      EXPECT_TRUE(same_bits(in_place.dh.device(), dz.device()));
      EXPECT_TRUE(same_bits(in_place.dbias.device(), p.dbias.device()));

      MlpGelu without(dtype, rows, columns);
      args = without.args();
      args.dbias = nullptr;
      run(cuda_queue(), args);
      EXPECT_TRUE(same_bits(without.h.device(), h.device()));
      EXPECT_TRUE(same_bits(without.dz.device(), dz.device()));
      EXPECT_TRUE(same_bits(without.dbias.device(), without.dbias.host()));

      MlpGelu kept(dtype, rows, columns);
      args = kept.args();
      args.h = nullptr;
      run(cuda_queue(), args);
      EXPECT_TRUE(same_bits(kept.dz.device(), dz.device()));
      EXPECT_TRUE(same_bits(kept.dbias.device(), p.dbias.device()));
      EXPECT_TRUE(same_bits(kept.h.device(), kept.h.host()));
    }
  }
}

// The approximation by tanh. The forward pass may have stored h, which must have the same bits.
TEST(CudaGelu, MlpBackwardOfTanhFormMatchesSeparatePasses) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t shapes[][2] = {{197, 40}, {33, 100}, {1, 7}};
  for (DType dtype : kTypes) {
    for (auto [rows, columns] : shapes) {
      SCOPED_TRACE(cat(name_of(dtype), " ", rows, " x ", columns));
      MlpGelu p(dtype, rows, columns);
      Twin h = Twin::output({rows, columns}, dtype), dz = Twin::output({rows, columns}, dtype);
      const std::int64_t count = rows * columns;
      run(cuda_queue(), ActivationForward{dtype, Activation::kGeluTanh, count, p.z.at(kOnDevice),
                                          h.at(kOnDevice)});
      run(cuda_queue(), ActivationBackward{dtype, Activation::kGeluTanh, count, p.z.at(kOnDevice),
                                           p.dh.at(kOnDevice), dz.at(kOnDevice)});
      MlpGeluBackward args = p.args();
      args.gelu_tanh = true;
      run(cuda_queue(), args);
      EXPECT_TRUE(same_bits(p.h.device(), h.device()));
      EXPECT_TRUE(same_bits(p.dz.device(), dz.device()));
      const double term = dtype == DType::kBFloat16 ? 0x1p-12 : 0x1p-20;
      expect_close("mlp_gelu_backward", cat("tanh, dbias ", rows, " x ", columns), p.dbias.device(),
                   p.exact_dbias(tanh_form_slope), term + rounding_bound(DType::kFloat32, rows));

      MlpGelu alone(dtype, rows, columns);
      args = alone.args();
      args.gelu_tanh = true;
      args.h = args.dbias = nullptr;
      run(cuda_queue(), args);
      EXPECT_TRUE(same_bits(alone.dz.device(), dz.device()));
    }
  }
}

TEST(CudaGelu, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    under_every_schedule([&] {
      MlpGelu p(dtype, 70, 40);
      run(cuda_queue(), p.args());
      return std::vector{p.h.device(), p.dz.device(), p.dbias.device()};
    });
  }
}

TEST(CudaGelu, AcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  run(cuda_queue(), GeluForward{DType::kFloat32, 0, nullptr, nullptr});
  run(cuda_queue(), GeluBackward{DType::kFloat32, 0, nullptr, nullptr, nullptr});
  MlpGelu p(DType::kFloat32, 1, 8);
  MlpGeluBackward args = p.args();
  args.rows = 0;
  run(cuda_queue(), args);
  EXPECT_TRUE(same_bits(p.dbias.device(), p.dbias.host()));
  args.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), args), Error);
}

}  // namespace
}  // namespace dtn::test
