#include "kernels/loss/cross_entropy.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

enum class Kind { kLabels, kSmoothed, kTargets, kShared, kSharedSmoothed };

bool is_shared(Kind kind) { return kind == Kind::kShared || kind == Kind::kSharedSmoothed; }

// Inputs and outputs of both kernels. Logits begin `shift` elements into their memory. With shift 1
// no vector load can read them.
struct Problem {
  DType dtype;
  std::int64_t rows, classes, shift;
  Kind kind;
  Twin logits, labels, partners, share, targets, upstream, loss, lse, dlogits;

  Problem(DType d, std::int64_t r, std::int64_t k, Kind what, double mean = 0, double spread = 3,
          std::int64_t shifted = 0)
      : dtype(d), rows(r), classes(k), shift(shifted), kind(what) {
    logits = random_twin({r * k + shift}, d, 1, spread, mean);
    Tensor l = Tensor::empty({r}, DType::kInt64);
    for (std::int64_t i = 0; i < r; ++i) l.data<std::int64_t>()[i] = (i * 7919 + k - 1) % k;
    labels = Twin(l);
    // Some rows are mixed with a row of the same class. In some rows the share of the label is 0 or
    // 1.
    Tensor p = Tensor::empty({r}, DType::kInt64), s = Tensor::empty({r}, DType::kFloat32);
    for (std::int64_t i = 0; i < r; ++i) {
      const std::int64_t* own = l.data<std::int64_t>();
      p.data<std::int64_t>()[i] = own[i % 3 == 1 ? i : r - 1 - i];
      s.data<float>()[i] = static_cast<float>((i + 1) % 5) / 4;
    }
    partners = Twin(p);
    share = Twin(s);
    // Some are 0, and their sum need not be 1.
    Doubles t = doubles(random_tensor({r, k}, 2));
    for (double& v : t) v = v > 0 ? 4 * v / static_cast<double>(k) : 0;
    targets = Twin(from_doubles(t, {r, k}, DType::kFloat32));
    upstream = Twin(Tensor::full({1}, DType::kFloat32, -0.75));
    make_outputs();
  }
  Problem in_float64() const {
    Problem p = *this;
    p.dtype = DType::kFloat64;
    for (Twin* t : {&p.logits, &p.targets, &p.upstream}) *t = Twin(as(t->host(), p.dtype));
    p.make_outputs();
    return p;
  }
  void set_label(std::int64_t row, std::int64_t label) {
    Tensor l = labels.host();
    l.data<std::int64_t>()[row] = label;
    labels = Twin(l);
  }
  void make_outputs() {
    loss = Twin::output({rows}, accumulator_of(dtype));
    lse = Twin::output({rows}, accumulator_of(dtype));
    dlogits = Twin::output({rows * classes + shift}, dtype);
  }
  void* at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) + static_cast<std::size_t>(shift) * size_of(dtype);
  }
  template <class Arguments>
  Arguments common(Where w) const {
    Arguments a{};
    a.dtype = dtype;
    a.rows = rows;
    a.classes = classes;
    a.logits = at(logits, w);
    if (kind == Kind::kTargets) {
      a.targets = targets.at(w);
    } else {
      a.labels = static_cast<const std::int64_t*>(labels.at(w));
      a.smoothing = kind == Kind::kSmoothed || kind == Kind::kSharedSmoothed ? 0.1 : 0;
      if (!is_shared(kind)) return a;
      a.partner_labels = static_cast<const std::int64_t*>(partners.at(w));
      a.label_share = static_cast<const float*>(share.at(w));
    }
    return a;
  }
  CrossEntropyForward forward(Where w) const {
    auto a = common<CrossEntropyForward>(w);
    a.loss = loss.at(w);
    a.lse = lse.at(w);
    return a;
  }
  CrossEntropyBackward backward(Where w) const {
    auto a = common<CrossEntropyBackward>(w);
    a.lse = lse.at(w);
    a.scale = 0.25;
    a.upstream = upstream.at(w);
    a.dlogits = at(dlogits, w);
    return a;
  }
  void run_on_device() const {
    run(cuda_queue(), forward(kOnDevice));
    run(cuda_queue(), backward(kOnDevice));
  }
};

// Compares the device and the host kernels with float64, within the same bounds. The gradient is
// exp(z - lse), so the rounding error of lse is a relative error of the gradient.
void check(const Problem& p) {
  const std::string what =
      cat(p.rows, " x ", p.classes, " kind ", static_cast<int>(p.kind), p.shift ? " shifted" : "");
  SCOPED_TRACE(cat(name_of(p.dtype), " ", what));
  Problem exact = p.in_float64();
  run(cpu_queue(), exact.forward(kOnHost));
  run(cpu_queue(), exact.backward(kOnHost));
  run(cpu_queue(), p.forward(kOnHost));
  run(cpu_queue(), p.backward(kOnHost));
  p.run_on_device();

  const double sum = rounding_bound(DType::kFloat32, p.classes);
  const Doubles loss = doubles(exact.loss.host()), lse = doubles(exact.lse.host());
  const Doubles dlogits = doubles(exact.dlogits.host());
  const double stored = (p.dtype == DType::kBFloat16 ? unit_roundoff(p.dtype) : 0) + sum +
                        4 * unit_roundoff(DType::kFloat32) * (1 + max_abs(lse));
  // The loss is a difference of sums as large as the spread of the logits.
  expect_close("cross_entropy_forward", "loss " + what, p.loss.device(), loss, sum, 1);
  expect_close("cross_entropy_forward", "lse " + what, p.lse.device(), lse, sum, 1);
  expect_close("cross_entropy_backward", what, p.dlogits.device(), dlogits, stored);
  EXPECT_LE(relative_error(doubles(p.loss.host()), loss, 1), sum);
  EXPECT_LE(relative_error(doubles(p.dlogits.host()), dlogits), stored);
}

TEST(CudaCrossEntropy, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t classes : {1, 2, 7, 10, 197, 1000, 1003, 2048, 21841, 21848}) {
      for (Kind kind :
           {Kind::kLabels, Kind::kSmoothed, Kind::kTargets, Kind::kShared, Kind::kSharedSmoothed}) {
        check(Problem(dtype, classes > 2048 ? 1 : 5, classes, kind));
        if (classes < 2048) check(Problem(dtype, 3, classes, kind, 0, 3, 1));
      }
    }
  }
}

TEST(CudaCrossEntropy, AccurateForLargeOffsetsAndSpreads) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (Kind kind : {Kind::kLabels, Kind::kSmoothed, Kind::kTargets}) {
      check(Problem(dtype, 5, 37, kind, 1000, 1));
      check(Problem(dtype, 5, 37, kind, -30000, 1));
      check(Problem(dtype, 5, 37, kind, 0, 300));
    }
  }
}

TEST(CudaCrossEntropy, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (Kind kind : {Kind::kSmoothed, Kind::kTargets, Kind::kSharedSmoothed}) {
    under_every_schedule([&] {
      Problem p(DType::kFloat32, 2, 1000, kind);
      p.run_on_device();
      return std::vector{p.loss.device(), p.lse.device(), p.dlogits.device()};
    });
  }
}

TEST(CudaCrossEntropy, RunsInPlaceOverLogits) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t classes : {1000, 1003}) {
      for (Kind kind : {Kind::kLabels, Kind::kTargets, Kind::kShared}) {
        Problem p(dtype, 3, classes, kind);
        p.run_on_device();
        CrossEntropyBackward args = p.backward(kOnDevice);
        args.dlogits = const_cast<void*>(args.logits);
        run(cuda_queue(), args);
        EXPECT_TRUE(same_bits(p.logits.device(), p.dlogits.device()));
      }
    }
  }
}

TEST(CudaCrossEntropy, NullUpstreamGradientMeansOne) {
  DTN_SKIP_WITHOUT_DEVICE();
  Problem p(DType::kFloat32, 3, 100, Kind::kSmoothed);
  run(cuda_queue(), p.forward(kOnDevice));
  CrossEntropyBackward args = p.backward(kOnDevice);
  args.scale = -0.75 * 0.25;
  args.upstream = nullptr;
  run(cuda_queue(), args);
  Tensor without = p.dlogits.device();
  p.run_on_device();
  EXPECT_TRUE(same_bits(p.dlogits.device(), without));
}

TEST(CudaCrossEntropy, NaNStaysInItsRow) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t classes : {5, 1000}) {
    for (std::int64_t at : {std::int64_t{0}, classes - 1}) {
      Problem p(DType::kFloat32, 3, classes, Kind::kLabels);
      Doubles z = doubles(p.logits.host());
      z[static_cast<std::size_t>(classes + at)] = NAN;
      p.logits = Twin(from_doubles(z, {3 * classes}, DType::kFloat32));
      p.run_on_device();
      const Doubles loss = doubles(p.loss.device()), dz = doubles(p.dlogits.device());
      EXPECT_TRUE(std::isfinite(loss[0]) && std::isnan(loss[1]) && std::isfinite(loss[2]));
      for (std::size_t i = 0; i < dz.size(); ++i) {
        ASSERT_EQ(std::isnan(dz[i]), static_cast<std::int64_t>(i) / classes == 1) << i;
      }
    }
  }
}

TEST(CudaCrossEntropy, MinusInfinityLogitHasZeroProbability) {
  DTN_SKIP_WITHOUT_DEVICE();
  Problem labels(DType::kFloat32, 2, 19, Kind::kLabels);  // labels: 18 and 17
  Doubles z = doubles(labels.logits.host());
  z[4] = z[19 + 17] = -INFINITY;
  labels.logits = Twin(from_doubles(z, {2 * 19}, DType::kFloat32));
  labels.set_label(1, 17);
  labels.run_on_device();
  Doubles loss = doubles(labels.loss.device());
  EXPECT_TRUE(std::isfinite(loss[0]));
  EXPECT_EQ(loss[1], INFINITY);
  EXPECT_EQ(doubles(labels.dlogits.device())[4], 0);

  Problem targets(DType::kFloat32, 2, 19, Kind::kTargets);
  targets.logits = labels.logits;
  Doubles t = doubles(targets.targets.host());
  t[4] = t[19 + 17] = 0;  // 0 x infinity counts as 0
  targets.targets = Twin(from_doubles(t, {2, 19}, DType::kFloat32));
  check(targets);
  loss = doubles(targets.loss.device());
  EXPECT_TRUE(std::isfinite(loss[0]) && std::isfinite(loss[1]));
}

// A row whose share is 1, or that is mixed with a row of the same class, has the bits of an unmixed
// row. An impossible class of weight 0 does not change the loss.
TEST(CudaCrossEntropy, MixWeightOneHasBitsOfPlainLabel) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (auto [shared, plain] : {std::pair{Kind::kShared, Kind::kLabels},
                               std::pair{Kind::kSharedSmoothed, Kind::kSmoothed}}) {
    Problem alone(DType::kFloat32, 6, 37, plain);
    alone.run_on_device();
    Problem whole(DType::kFloat32, 6, 37, shared), own_class = whole, none = whole;
    whole.share = Twin(Tensor::full({6}, DType::kFloat32, 1));
    none.share = Twin(Tensor::zeros({6}, DType::kFloat32));
    none.labels = none.partners;
    own_class.partners = none.partners = own_class.labels;
    for (Problem* p : {&whole, &own_class, &none}) {
      p->make_outputs();
      p->run_on_device();
      EXPECT_TRUE(same_bits(p->loss.device(), alone.loss.device()));
      EXPECT_TRUE(same_bits(p->dlogits.device(), alone.dlogits.device()));
    }
  }
  Problem p(DType::kFloat32, 1, 19, Kind::kShared);
  p.partners = Twin(Tensor::from<std::int64_t>(std::vector<std::int64_t>{4}, {1}));
  Doubles z = doubles(p.logits.host());
  for (std::size_t impossible : {4, 18}) {
    Doubles with = z;
    with[impossible] = -INFINITY;
    p.logits = Twin(from_doubles(with, {19}, DType::kFloat32));
    for (double share : {0.0, 0.5, 1.0}) {
      p.share = Twin(Tensor::full({1}, DType::kFloat32, share));
      p.run_on_device();
      const double counts = impossible == 4 ? 1 - share : share;
      EXPECT_EQ(doubles(p.loss.device())[0] == INFINITY, counts > 0);
      EXPECT_FALSE(std::isnan(doubles(p.loss.device())[0]));
    }
  }
}

TEST(CudaCrossEntropy, InvalidLabelGivesNaNInItsRowOnly) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t label : {std::int64_t{-1}, std::int64_t{10}, kFar, -kFar - 1}) {
    for (Kind kind : {Kind::kLabels, Kind::kSmoothed, Kind::kShared}) {
      Problem right(DType::kFloat32, 3, 10, kind), wrong(DType::kFloat32, 3, 10, kind);
      if (is_shared(kind)) std::swap(wrong.labels, wrong.partners);
      wrong.set_label(1, label);
      if (is_shared(kind)) std::swap(wrong.labels, wrong.partners);
      right.run_on_device();
      wrong.run_on_device();
      EXPECT_TRUE(std::isnan(doubles(wrong.loss.device())[1]));
      EXPECT_TRUE(same_bits(wrong.lse.device(), right.lse.device()));
      const Doubles got = doubles(wrong.dlogits.device()), want = doubles(right.dlogits.device());
      for (std::size_t i = 0; i < 30; ++i) {
        ASSERT_TRUE(i / 10 == 1 ? std::isnan(got[i]) : got[i] == want[i]);
      }
    }
  }
}

TEST(CudaCrossEntropy, AcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  CrossEntropyForward empty{};
  empty.dtype = DType::kFloat32;
  empty.classes = 10;
  run(cuda_queue(), empty);
  CrossEntropyBackward wrong = Problem(DType::kFloat32, 1, 8, Kind::kLabels).backward(kOnDevice);
  wrong.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), wrong), Error);
}

}  // namespace
}  // namespace dtn::test
