// DTN along a sequence on the device. Compares it with the dense formulas in float64, sample by
// sample over the valid tokens alone, and with the CPU kernels. The padding holds NaN.
#include <cmath>
#include <limits>

#include "cuda/twin.h"
#include "unit/kernels/dtn_sequence_problem.h"

namespace dtn::test {
namespace {

constexpr DtnVariant kVariants[] = {DtnVariant::kPaper, DtnVariant::kOfficial};
constexpr double kSquareWeights[] = {-2, -1, -0.25, -0.02, -1e-4, 0, 0.02};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class T>
Twin twin_of(const std::vector<T>& values, const Shape& shape) {
  return Twin(Tensor::from(values, shape));
}
Twin poisoned(const Shape& shape, DType dtype = DType::kFloat32) {
  return Twin::output(shape, dtype);
}
Twin zeros(const Shape& shape) { return Twin(Tensor::zeros(shape, DType::kFloat32)); }

// A problem in both memories, and the outputs of the kernels. `pad` is the value that x, dy and the
// gradient to add have in the padding.
template <class T>
struct DeviceSequence {
  Shape shape;
  bool official;
  Twin lengths, x, dy, weight, bias, lambda_mean, lambda_var, pos_weight;
  Twin y, dx, token_mean, token_var, pivot, head_rstd;
  Twin dweight, dbias, dlambda_mean, dlambda_var, dpos_weight;
  DtnSequenceForward forward{};
  DtnSequenceBackward backward{};

  DeviceSequence(const SequenceProblem& p, const Doubles& cotangent, Where w = kOnDevice,
                 double pad = kNaN)
      : shape{p.all.batch, p.tokens(), p.all.channels},
        official(p.all.official),
        lengths(twin_of(p.lengths, {p.all.batch})),
        x(values(p, p.all.x, pad)),
        dy(values(p, cotangent, pad)),
        weight(twin_of(to<float>(p.all.weight), {p.all.channels})),
        bias(twin_of(to<float>(p.all.bias), {p.all.channels})),
        lambda_mean(twin_of(to<float>(p.all.lambda_mean), {p.all.heads})),
        lambda_var(twin_of(to<float>(p.all.lambda_var), {p.all.heads})),
        pos_weight(twin_of(to<float>(p.all.pos_weight), {p.all.heads, 3})),
        y(poisoned(shape, DTypeOf<T>::value)),
        dx(poisoned(shape, DTypeOf<T>::value)),
        token_mean(poisoned({p.all.batch, p.tokens()})),
        token_var(poisoned({p.all.batch, p.tokens()})),
        pivot(poisoned({p.all.batch, p.all.channels})),
        head_rstd(poisoned({p.all.batch, p.all.heads, p.tokens()}, DType::kFloat64)),
        dweight(zeros({p.all.channels})),
        dbias(zeros({p.all.channels})),
        dlambda_mean(zeros({p.all.heads})),
        dlambda_var(zeros({p.all.heads})),
        dpos_weight(zeros({p.all.heads, 3})) {
    auto common = [&](auto& n) {
      n.dtype = DTypeOf<T>::value;
      n.batch = p.all.batch;
      n.grid_h = 1;
      n.grid_w = p.tokens();
      n.channels = p.all.channels;
      n.heads = p.all.heads;
      n.eps = p.all.eps;
      n.variant = official ? DtnVariant::kOfficial : DtnVariant::kPaper;
      n.x = x.at(w);
      n.weight = weight.at(w);
      n.lambda_mean = lambda_mean.at(w);
      n.lambda_var = lambda_var.at(w);
      n.pos_weight = pos_weight.at(w);
      n.token_mean = token_mean.at(w);
      n.token_var = token_var.at(w);
      n.pivot = pivot.at(w);
      n.head_rstd = official ? head_rstd.at(w) : nullptr;
    };
    common(forward.norm);
    common(backward.norm);
    forward.lengths = backward.lengths = static_cast<const std::int64_t*>(lengths.at(w));
    forward.norm.bias = bias.at(w);
    forward.norm.y = y.at(w);
    backward.norm.dy = dy.at(w);
    backward.norm.dx = dx.at(w);
    backward.norm.dweight = dweight.at(w);
    backward.norm.dbias = dbias.at(w);
    backward.norm.dlambda_mean = dlambda_mean.at(w);
    backward.norm.dlambda_var = dlambda_var.at(w);
    backward.norm.dpos_weight = dpos_weight.at(w);
  }

  const DeviceSequence& run_passes() const {
    run(cuda_queue(), forward);
    run(cuda_queue(), backward);
    return *this;
  }
  // Returns all results except the statistics of the padding.
  std::vector<Tensor> results() const {
    return {y.device(),     dx.device(),           dweight.device(),     dbias.device(),
            pivot.device(), dlambda_mean.device(), dlambda_var.device(), dpos_weight.device()};
  }

 private:
  Twin values(const SequenceProblem& p, const Doubles& numbers, double pad) const {
    return twin_of(to<T>(FusedSequence<T>::padded(p, numbers, pad)), shape);
  }
};

// One column of position weights [H, 3].
Doubles column(const Doubles& weights, std::size_t k) {
  Doubles out;
  for (; k < weights.size(); k += 3) out.push_back(weights[k]);
  return out;
}

// Compares y and the gradients with the expected values. The tolerance is 1e-5 of the largest
// value. Results stored in bfloat16 may differ by half a unit in the last place more. `nothing` is
// the smallest scale of the error of a_d gradients. For a_x the smallest scale is its square root,
// because the gradients of a_d have one more factor of the window width.
template <class T>
void expect_results(const std::string& what, const DeviceSequence<T>& got, const Doubles& y,
                    const DenseDtn::Gradients& g, double factor, double nothing) {
  auto expect = [&](const char* name, const Tensor& result, const Doubles& want, double bound) {
    expect_close("dtn_sequence", cat(what, " ", name), result, want, factor * bound);
  };
  expect("y", got.y.device(), y, stored_tolerance<T>());
  expect("dx", got.dx.device(), g.x, stored_tolerance<T>());
  expect("dweight", got.dweight.device(), g.weight, tolerance<T>());
  expect("dbias", got.dbias.device(), g.bias, tolerance<T>());
  expect("dlambda_mean", got.dlambda_mean.device(), g.lambda_mean, tolerance<T>());
  expect("dlambda_var", got.dlambda_var.device(), g.lambda_var, tolerance<T>());
  const Doubles positions = doubles(got.dpos_weight.device());
  // Compares each column with its own scale: the columns differ by the width of the windows.
  for (std::size_t k : {0, 2}) {
    const double error = relative_error(column(positions, k), column(g.pos_weight, k),
                                        k == 0 ? std::sqrt(nothing) : nothing);
    EXPECT_LE(error, factor * tolerance<T>()) << what << " dpos_weight, column " << k;
    record_error("dtn_sequence", cat(what, " dpos_weight"), DType::kFloat32, error,
                 factor * tolerance<T>());
  }
  EXPECT_EQ(max_abs(column(positions, 1)), 0) << what;  // no effect on a sequence
}

// Root of the sum of squares of the terms of the position gradients. Where the terms cancel, the
// size of the result does not show the accuracy that is possible.
double size_of_terms(const SequenceProblem& p, const Doubles& dy) {
  double squares = 0;
  for (int b = 0; b < p.all.batch; ++b) {
    const double one = p.sample(b).position_terms(p.valid(dy, b));
    squares += one * one;
  }
  return std::sqrt(squares);
}

// Compares with the oracle, and with the CPU kernels at twice the tolerance (both sides may be
// off).
template <class T>
void check(const SequenceProblem& p, double nothing = 0.1, bool every_schedule = false) {
  const std::string what = cat(name_of(DTypeOf<T>::value), " ", sequence_text(p));
  SCOPED_TRACE(what);
  const Doubles dy = cotangent_of<T>(p.all), y = p.forward();
  const DenseDtn::Gradients gradients = p.backward(dy);
  nothing = std::max(nothing, size_of_terms(p, dy));
  const DeviceSequence<T> cpu(p, dy, kOnHost);
  run(cpu_queue(), cpu.forward);
  run(cpu_queue(), cpu.backward);
  auto host = [](const Twin& t) { return doubles(t.host()); };
  const DenseDtn::Gradients of_cpu{host(cpu.dx),
                                   host(cpu.dweight),
                                   host(cpu.dbias),
                                   host(cpu.dlambda_mean),
                                   host(cpu.dlambda_var),
                                   host(cpu.dpos_weight),
                                   {}};
  auto body = [&] {
    const DeviceSequence<T> device(p, dy);
    device.run_passes();
    expect_results(what + " oracle", device, y, gradients, 1, nothing);
    expect_results(what + " twin", device, host(cpu.y), of_cpu, 2, nothing);
    return device.results();
  };
  if (every_schedule) {
    under_every_schedule(body);
  } else {
    body();
  }
}

template <class T>
class CudaDtnSequence : public ::testing::Test {
 protected:
  void SetUp() override { DTN_SKIP_WITHOUT_DEVICE(); }
};
using Types = ::testing::Types<float, bfloat16>;
TYPED_TEST_SUITE(CudaDtnSequence, Types);

// Windows of all kinds. Their centres are slightly ahead of the token, beyond an end for some rows,
// or beyond an end for all rows.
TYPED_TEST(CudaDtnSequence, MatchesReferenceAndCpu) {
  for (double a_d : kSquareWeights) {
    for (DtnVariant variant : kVariants) {
      for (double delta : {0.3, -40.0, 240.0}) {
        // Far beyond the end, one key has almost all the weight and the position gradients almost
        // vanish. The oracle then multiplies its rounding errors by up to 200^2.
        const double nothing = delta > 200 ? 1e-3 * 200 * 200 : 0.1;
        check<TypeParam>(make_sequence<TypeParam>({150, 1, 64}, 152, 10, 2, a_d, delta, variant),
                         nothing);
      }
    }
  }
}

// One sample per kind of end: one token, less than a warp, less than a block, and whole ones.
TYPED_TEST(CudaDtnSequence, AnyLength) {
  const Lengths lengths = {1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129};
  for (double a_d : {-1.0, -0.02, 0.0, 0.02}) {
    check<TypeParam>(make_sequence<TypeParam>(lengths, 131, 6, 2, a_d, 1.2, DtnVariant::kPaper));
  }
}

// Heads with more channels than a warp has lanes, with a remainder; each head has other windows.
TYPED_TEST(CudaDtnSequence, ManyChannels) {
  SequenceProblem p = make_sequence<TypeParam>({70, 33}, 70, 160, 4, -1, 0, DtnVariant::kPaper);
  p.all.pos_weight = {1, 0, -1, 0.5, 0, 0, -0.3, 0, -0.02, 0, 0, 0.02};
  check<TypeParam>(p);
}

TYPED_TEST(CudaDtnSequence, Schedules) {
  for (DtnVariant variant : kVariants) {
    check<TypeParam>(padded_problem<TypeParam>(140, variant), 0.1, true);
  }
}

TYPED_TEST(CudaDtnSequence, PaddingIsZeroAndHasNoEffect) {
  const double inf = std::numeric_limits<double>::infinity();
  for (DtnVariant variant : kVariants) {
    const SequenceProblem p = padded_problem<TypeParam>(140, variant);
    const Doubles dy = cotangent_of<TypeParam>(p.all);
    std::vector<Tensor> of_zeros;
    for (double pad : {0.0, kNaN, -inf}) {
      DeviceSequence<TypeParam> run(p, dy, kOnDevice, pad);
      // The gradient to add is in the memory of dx and holds the same values in the padding.
      run.dx = Twin(run.dy.host().clone());
      run.backward.norm.dx_add = run.backward.norm.dx = run.dx.at(kOnDevice);
      const std::vector<Tensor> results = run.run_passes().results();
      if (of_zeros.empty()) of_zeros = results;
      for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_TRUE(same_bits(results[i], of_zeros[i])) << pad << " result " << i;
      }
      for (const Doubles& values : {doubles(results[0]), doubles(results[1])}) {
        for (int b = 0; b < p.all.batch; ++b) {
          for (auto t = static_cast<int>(p.lengths[static_cast<std::size_t>(b)]); t < p.tokens();
               ++t) {
            ASSERT_EQ(values[p.all.at(b, t, t % p.all.channels)], 0) << pad;
          }
        }
      }
    }
  }
}

TYPED_TEST(CudaDtnSequence, ExtraPaddingKeepsBits) {
  const SequenceProblem few = padded_problem<TypeParam>(133, DtnVariant::kPaper);
  SequenceProblem many = padded_problem<TypeParam>(260, DtnVariant::kPaper);
  const Doubles dy = cotangent_of<TypeParam>(few.all);
  Doubles padded_dy(many.all.x.size());
  for (int b = 0; b < few.all.batch; ++b) {
    many.put(few.valid(few.all.x, b), b, many.all.x);
    many.put(few.valid(dy, b), b, padded_dy);
  }
  const DeviceSequence<TypeParam> a(few, dy), z(many, padded_dy);
  a.run_passes();
  z.run_passes();
  const auto valid = [](const SequenceProblem& p, const Twin& values, int b) {
    return p.valid(doubles(values.device()), b);
  };
  for (int b = 0; b < few.all.batch; ++b) {
    EXPECT_EQ(valid(few, a.y, b), valid(many, z.y, b)) << b;
    EXPECT_EQ(valid(few, a.dx, b), valid(many, z.dx, b)) << b;
  }
}

TYPED_TEST(CudaDtnSequence, AccumulatesParameterGradientsAndAddsResidualGradient) {
  for (DtnVariant variant : kVariants) {
    const SequenceProblem p = padded_problem<TypeParam>(140, variant);
    const Doubles dy = cotangent_of<TypeParam>(p.all);
    const DeviceSequence<TypeParam> once(p, dy);
    DeviceSequence<TypeParam> twice(p, dy);
    once.run_passes();
    twice.run_passes();
    const Twin residual = random_twin(twice.shape, DTypeOf<TypeParam>::value, 10);
    twice.backward.norm.dx_add = residual.at(kOnDevice);
    run(cuda_queue(), twice.backward);
    const Doubles dx = doubles(once.dx.device()), waiting = doubles(residual.host()),
                  sum = doubles(twice.dx.device());
    for (int b = 0; b < p.all.batch; ++b) {
      const Doubles a = p.valid(dx, b), r = p.valid(waiting, b), s = p.valid(sum, b);
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double want = a[i] + r[i];
        EXPECT_NEAR(s[i], want, 4 * epsilon_of<TypeParam>() * (1 + std::fabs(want)));
      }
    }
    for (auto member :
         {&DeviceSequence<TypeParam>::dweight, &DeviceSequence<TypeParam>::dbias,
          &DeviceSequence<TypeParam>::dlambda_mean, &DeviceSequence<TypeParam>::dlambda_var,
          &DeviceSequence<TypeParam>::dpos_weight}) {
      Doubles doubled = doubles((once.*member).device());
      for (double& v : doubled) v *= 2;
      EXPECT_LE(relative_error(doubles((twice.*member).device()), doubled), 1e-6);
    }
  }
}

TYPED_TEST(CudaDtnSequence, AnyGradientIsOptional) {
  const SequenceProblem p = padded_problem<TypeParam>(140, DtnVariant::kPaper);
  const Doubles dy = cotangent_of<TypeParam>(p.all);
  const DeviceSequence<TypeParam> all(p, dy);
  DeviceSequence<TypeParam> only_x(p, dy), no_x(p, dy);
  DtnNormBackward& b = only_x.backward.norm;
  b.dweight = b.dbias = b.dlambda_mean = b.dlambda_var = b.dpos_weight = nullptr;
  no_x.backward.norm.dx = nullptr;
  const std::vector<Tensor> whole = all.run_passes().results();
  only_x.run_passes();
  no_x.run_passes();
  EXPECT_TRUE(same_bits(only_x.dx.device(), whole[1]));
  EXPECT_EQ(max_abs(doubles(only_x.dpos_weight.device())), 0);
  const std::vector<Tensor> parameters = no_x.results();
  for (std::size_t i = 2; i < whole.size(); ++i) EXPECT_TRUE(same_bits(parameters[i], whole[i]));
}

TYPED_TEST(CudaDtnSequence, SamplesWithoutTokensContributeNothing) {
  SequenceProblem p = padded_problem<TypeParam>(140, DtnVariant::kPaper);
  const Doubles dy = cotangent_of<TypeParam>(p.all);
  p.lengths = {0, 0, 133, 0};
  const SequenceProblem one{p.sample(2), {133}};
  const DeviceSequence<TypeParam> some(p, dy), alone(one, p.valid(dy, 2));
  some.run_passes();
  alone.run_passes();
  EXPECT_EQ(max_abs(doubles(some.dweight.device())), max_abs(doubles(alone.dweight.device())));
  EXPECT_EQ(p.valid(doubles(some.dx.device()), 2), doubles(alone.dx.device()));
  EXPECT_TRUE(std::isfinite(max_abs(doubles(some.dpos_weight.device()))));
}

TEST(CudaDtnSequenceNumerics, LargeMean) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    for (double a_d : {-1.0, 0.0, 0.02}) {
      SequenceProblem p = make_sequence<float>({96, 40}, 96, 32, 2, a_d, 0.4, variant);
      for (double& x : p.all.x) x = static_cast<float>(x + 1e3);
      check<float>(p);
    }
  }
}

// Thousands of tokens, with windows that cover a part of them and windows that cover all.
TEST(CudaDtnSequenceNumerics, LongSequences) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (double a_d : {-0.02, -1e-4, 0.0, 0.02}) {
    check<float>(make_sequence<float>({2001}, 2001, 6, 2, a_d, 40, DtnVariant::kPaper),
                 a_d > 0 ? 1e-3 * 2000 * 2000 : 0.1);
  }
}

// Weights that diverged in training do not end the program.
TEST(CudaDtnSequenceNumerics, NonFinitePositionWeights) {
  DTN_SKIP_WITHOUT_DEVICE();
  const double inf = std::numeric_limits<double>::infinity();
  for (auto [a_x, a_d] : {std::pair{kNaN, -1.0},
                          {0.5, kNaN},
                          {inf, -1.0},
                          {-inf, 0.0},
                          {0.5, inf},
                          {0.5, -inf},
                          {1e30, -1e-30},
                          {-1e30, 1e-30},
                          {0.1, -1e-40}}) {
    SequenceProblem p = make_sequence<float>({70, 12}, 80, 6, 1, -1, 0, DtnVariant::kPaper);
    p.all.pos_weight = {a_x, 0, a_d};
    const DeviceSequence<float> device(p, cotangent_of<float>(p.all));
    device.run_passes();
    const double largest = max_abs(doubles(device.y.device()));
    EXPECT_EQ(std::isfinite(largest), std::isfinite(a_x) && std::isfinite(a_d))
        << a_x << " " << a_d;
  }
}

TEST(CudaDtnSequenceErrors, RejectsTwoDimensionalGridsAndFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  const SequenceProblem p = make_sequence<float>({2}, 2, 4, 2, -1, 0, DtnVariant::kPaper);
  DeviceSequence<float> device(p, p.all.x);
  device.forward.norm.grid_h = device.backward.norm.grid_h = 2;
  EXPECT_THROW(run(cuda_queue(), device.forward), Error);
  EXPECT_THROW(run(cuda_queue(), device.backward), Error);
  device.forward.norm.dtype = DType::kFloat64;
  device.forward.norm.grid_h = 1;
  EXPECT_THROW(run(cuda_queue(), device.forward), Error);
}

}  // namespace
}  // namespace dtn::test
