#include "kernels/conv/convolution.h"

#include "convolution_cases.h"
#include "dtn/core/check.h"
#include "kernels/conv/axis_taps.h"
#include "kernels/conv/depthwise_tokens.h"
#include "kernels/gemm/gemm.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(DepthwiseTokensForward)
DTN_RUN_ON_EACH_ISA(DepthwiseTokensBackwardInput)
DTN_RUN_ON_EACH_ISA(DepthwiseTokensBackwardWeight)

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64};

// Bound for sums of `terms` in the accumulator type, rounded once to the stored type.
double bound_of(DType accumulator, DType stored, std::int64_t terms) {
  return unit_roundoff(stored) +
         4 * unit_roundoff(accumulator) * std::sqrt(static_cast<double>(terms));
}

void expect_near(const Tensor& got, const Doubles& want, double bound, const std::string& what) {
  EXPECT_GT(max_abs(want), 0) << what << ": a test of zeros";
  EXPECT_LE(max_abs_difference(doubles(got), want), bound * max_abs(want)) << what;
}

// Results of the three kernels. dweight and dbias are added to ones.
struct Results {
  Tensor y, dx, dweight, dbias;

  bool operator==(const Results& o) const {
    return same_bits(y, o.y) && same_bits(dx, o.dx) && same_bits(dweight, o.dweight) &&
           same_bits(dbias, o.dbias);
  }
};

// `run_all` runs the three kernels.
template <class Run>
Results results_of(const ConvolutionValues& v, DType dtype, Run&& run_all) {
  const DType acc = accumulator_of(dtype);
  Results r{poison(v.dy.shape(), dtype), poison(v.x.shape(), dtype),
            Tensor::full(v.weight.shape(), acc, 1), Tensor::full(v.bias.shape(), acc, 1)};
  const Tensor x = as(v.x, dtype), weight = as(v.weight, dtype), bias = as(v.bias, acc);
  run_all(x, weight, bias, as(v.dy, dtype), r);
  return r;
}

Results run_convolution(const ConvolutionValues& v, ConvolutionShape s, DType dtype) {
  s.dtype = dtype;
  return results_of(
      v, dtype,
      [&](const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& dy, Results& r) {
        run(cpu_queue(), ConvolutionForward{s, x.raw(), w.raw(), bias.raw(), r.y.raw()});
        run(cpu_queue(), ConvolutionBackwardInput{s, dy.raw(), w.raw(), r.dx.raw()});
        run(cpu_queue(),
            ConvolutionBackwardWeight{s, x.raw(), dy.raw(), r.dweight.raw(), r.dbias.raw()});
      });
}

Results run_depthwise(const ConvolutionValues& v, ConvolutionShape s, DType dtype, Isa isa) {
  s.dtype = dtype;
  return results_of(
      v, dtype,
      [&](const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& dy, Results& r) {
        run_on(isa, DepthwiseTokensForward{{s, x.raw(), w.raw(), bias.raw(), r.y.raw()}});
        run_on(isa, DepthwiseTokensBackwardInput{{s, dy.raw(), w.raw(), r.dx.raw()}});
        run_on(isa, DepthwiseTokensBackwardWeight{
                        {s, x.raw(), dy.raw(), r.dweight.raw(), r.dbias.raw()}});
      });
}

void expect_values(const Results& got, const ConvolutionValues& v, const ConvolutionShape& s,
                   DType dtype) {
  const DType acc = accumulator_of(dtype);
  auto plus_one = [](Doubles d) {
    for (double& x : d) x += 1;
    return d;
  };
  expect_near(got.y, v.y, bound_of(acc, dtype, terms_of_y(s)), "y");
  expect_near(got.dx, v.dx, bound_of(acc, dtype, terms_of_dx(s)), "dx");
  expect_near(got.dweight, plus_one(v.dweight), bound_of(acc, acc, terms_of_dweight(s)), "dweight");
  expect_near(got.dbias, plus_one(v.dbias), bound_of(acc, acc, terms_of_dweight(s)), "dbias");
}

TEST(Convolution, MatchesFormula) {
  std::vector<ConvolutionCase> cases = dense_cases();
  for (const ConvolutionCase& c : depthwise_cases()) cases.push_back(c);
  for (const ConvolutionCase& c : cases) {
    const ConvolutionValues values(c.shape);
    for (DType dtype : kTypes) {
      for (bool eigen : {false, true}) {
        SCOPED_TRACE(cat(c.name, ", ", name_of(dtype), eigen ? ", Eigen" : ""));
        const bool before = force_eigen_gemm(eigen);
        expect_values(run_convolution(values, c.shape, dtype), values, c.shape, dtype);
        force_eigen_gemm(before);
      }
    }
  }
}

TEST(Convolution, SameBitsForAnyNumberOfThreads) {
  for (const ConvolutionCase& c : dense_cases()) {
    const ConvolutionValues values(c.shape);
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(cat(c.name, ", ", name_of(dtype)));
      Threads one(1);
      const Results want = run_convolution(values, c.shape, dtype);
      for (int threads : kThreadCounts) {
        Threads several(threads);
        EXPECT_TRUE(run_convolution(values, c.shape, dtype) == want) << threads << " threads";
      }
    }
  }
}

TEST(DepthwiseTokens, MatchFormulaOnEveryInstructionSet) {
  for (const ConvolutionCase& c : depthwise_cases()) {
    const ConvolutionValues values(c.shape);
    for (DType dtype : kTypes) {
      for (Isa isa : isas()) {
        SCOPED_TRACE(cat(c.name, ", ", name_of(dtype), ", ", name_of(isa)));
        Threads one(1);
        const Results got = run_depthwise(values, c.shape, dtype, isa);
        expect_values(got, values, c.shape, dtype);
        for (int threads : kThreadCounts) {
          Threads several(threads);
          EXPECT_TRUE(run_depthwise(values, c.shape, dtype, isa) == got) << threads << " threads";
        }
      }
    }
  }
}

// Parameters that are not trained, and convolutions without bias.
TEST(Convolution, SkipsNullOutputs) {
  for (const std::vector<ConvolutionCase>& cases : {dense_cases(), depthwise_cases()}) {
    const ConvolutionShape s = cases[1].shape;
    const ConvolutionValues v(s);
    const Results all = run_convolution(v, s, DType::kFloat32);
    const Tensor x = as(v.x, s.dtype), w = as(v.weight, s.dtype), dy = as(v.dy, s.dtype);
    Tensor y = Tensor::empty(v.dy.shape(), s.dtype);
    run(cpu_queue(), ConvolutionForward{s, x.raw(), w.raw(), nullptr, y.raw()});
    Doubles want = v.y;
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] -= element(v.bias, static_cast<std::int64_t>(i) % s.outputs);
    }
    expect_near(y, want, bound_of(s.dtype, s.dtype, terms_of_y(s)), "without bias");
    Tensor dweight = Tensor::full(v.weight.shape(), s.dtype, 1);
    Tensor dbias = Tensor::full(v.bias.shape(), s.dtype, 1);
    run(cpu_queue(), ConvolutionBackwardWeight{s, x.raw(), dy.raw(), dweight.raw(), nullptr});
    EXPECT_TRUE(same_bits(dweight, all.dweight));
    run(cpu_queue(), ConvolutionBackwardWeight{s, x.raw(), dy.raw(), nullptr, dbias.raw()});
    EXPECT_LE(max_abs_difference(doubles(dbias), doubles(all.dbias)),
              bound_of(s.dtype, s.dtype, s.positions()) * max_abs(doubles(all.dbias)));
    ConvolutionShape none = s;
    none.batch = 0;
    run(cpu_queue(), ConvolutionForward{none, nullptr, w.raw(), nullptr, nullptr});
    run(cpu_queue(), ConvolutionBackwardInput{none, nullptr, w.raw(), nullptr});
    run(cpu_queue(), ConvolutionBackwardWeight{none, nullptr, nullptr, dweight.raw(), nullptr});
    EXPECT_TRUE(same_bits(dweight, all.dweight)) << "of no images";
  }
}

TEST(Convolution, CountsMultiplyAdds) {
  const ConvolutionShape s{DType::kFloat32, window_of(9, 8, 3, 3, 2, 2, 1, 1), 2, 16, 8, 4};
  EXPECT_EQ(s.multiply_adds(), 2 * 5 * 4 * 8 * 4 * 9);
  EXPECT_EQ((ConvolutionForward{s, nullptr, nullptr, nullptr, nullptr}.multiply_adds()),
            s.multiply_adds());
  EXPECT_EQ((ConvolutionBackwardWeight{s, nullptr, nullptr, nullptr, nullptr}.multiply_adds()), 0);
}

// Every pair of an input and a tap that contributes to an output occurs in exactly one phase.
TEST(AxisTaps, PhasesCoverEveryTapOnce) {
  for (std::int64_t kernel : {1, 2, 3, 7}) {
    for (std::int64_t stride : {1, 2, 4}) {
      for (std::int64_t pad : {0, 1, 3, 5}) {
        const std::int64_t inputs = 11, outputs = (inputs + 2 * pad - kernel) / stride + 1;
        std::vector<int> met(static_cast<std::size_t>(inputs * kernel * outputs));
        auto meet = [&](std::int64_t i, std::int64_t u, std::int64_t o) -> int& {
          return met[static_cast<std::size_t>((i * kernel + u) * outputs + o)];
        };
        for (std::int64_t phase = 0; phase < stride; ++phase) {
          const AxisTaps a = backward_taps(inputs, outputs, kernel, stride, pad, phase);
          for (std::int64_t n = 0; n < a.count; ++n) {
            for (std::int64_t t = a.begin_of(n); t < a.end_of(n); ++t) {
              ++meet(a.place(n), a.tap + t * a.tap_step, a.first_source(n) + t);
            }
          }
        }
        const AxisTaps f = forward_taps(inputs, outputs, kernel, stride, pad);
        for (std::int64_t o = 0; o < f.count; ++o) {
          for (std::int64_t t = f.begin_of(o); t < f.end_of(o); ++t) {
            --meet(f.first_source(o) + t, t, o);
          }
        }
        EXPECT_EQ(std::count(met.begin(), met.end(), 0), std::ssize(met))
            << kernel << " by " << stride << " padded " << pad;
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
