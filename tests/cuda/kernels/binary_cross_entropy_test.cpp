#include "kernels/loss/binary_cross_entropy.h"

#include <optional>

#include "cuda/twin.h"

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

enum class Kind { kLabels, kSmoothed, kTargets, kShared };

// Inputs and outputs of both kernels. Logits begin `shift` elements into their memory. With shift 1
// no vector load can read them.
struct Problem {
  DType dtype;
  std::int64_t rows, classes, shift;
  Kind kind;
  std::optional<double> threshold;
  Twin logits, labels, partners, share, targets, upstream, loss, dlogits;

  Problem(DType d, std::int64_t r, std::int64_t k, Kind what, std::int64_t shifted = 0,
          double mean = 0, double spread = 3)
      : dtype(d), rows(r), classes(k), shift(shifted), kind(what) {
    logits = random_twin({r * k + shift}, d, 1, spread, mean);
    Tensor l = Tensor::empty({r}, DType::kInt64), p = Tensor::empty({r}, DType::kInt64);
    Tensor s = Tensor::empty({r}, DType::kFloat32);
    // Some rows are mixed with a row of the same class. In some rows the share of the label is 0 or
    // 1.
    for (std::int64_t i = 0; i < r; ++i) l.data<std::int64_t>()[i] = (i * 7919 + k - 1) % k;
    for (std::int64_t i = 0; i < r; ++i) {
      p.data<std::int64_t>()[i] = l.data<std::int64_t>()[i % 3 == 1 ? i : r - 1 - i];
      s.data<float>()[i] = static_cast<float>((i + 1) % 5) / 4;
    }
    labels = Twin(l), partners = Twin(p), share = Twin(s);
    targets = Twin(as(random_tensor({r, k}, 2, 0.5, 0.5), DType::kFloat32));
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
  void make_outputs() {
    loss = Twin::output({rows}, accumulator_of(dtype));
    dlogits = Twin::output({rows * classes + shift}, dtype);
  }
  void* at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) + static_cast<std::size_t>(shift) * size_of(dtype);
  }
  BinaryTargets against(Where w) const {
    BinaryTargets t;
    t.binarize = threshold.has_value();
    t.threshold = threshold.value_or(0);
    if (kind == Kind::kTargets) {
      t.targets = targets.at(w);
      return t;
    }
    t.labels = static_cast<const std::int64_t*>(labels.at(w));
    t.smoothing = kind == Kind::kLabels ? 0 : 0.1;
    if (kind != Kind::kShared) return t;
    t.partner_labels = static_cast<const std::int64_t*>(partners.at(w));
    t.label_share = static_cast<const float*>(share.at(w));
    return t;
  }
  BinaryCrossEntropyForward forward(Where w) const {
    return {dtype,     rows, classes, at(logits, w), against(w), 1 / static_cast<double>(classes),
            loss.at(w)};
  }
  BinaryCrossEntropyBackward backward(Where w) const {
    return {dtype, rows, classes, at(logits, w), against(w), 0.25, at(dlogits, w), upstream.at(w)};
  }
  void run_on_device() const {
    run(cuda_queue(), forward(kOnDevice));
    run(cuda_queue(), backward(kOnDevice));
  }
};

// Compares the device and the host kernels with float64, within the same bounds.
void check(const Problem& p) {
  const std::string what = cat(p.rows, " x ", p.classes, " kind ", static_cast<int>(p.kind),
                               p.threshold ? " binarized" : "", p.shift ? " shifted" : "");
  SCOPED_TRACE(cat(name_of(p.dtype), " ", what));
  const Problem exact = p.in_float64();
  run(cpu_queue(), exact.forward(kOnHost));
  run(cpu_queue(), exact.backward(kOnHost));
  run(cpu_queue(), p.forward(kOnHost));
  run(cpu_queue(), p.backward(kOnHost));
  p.run_on_device();
  const Doubles loss = doubles(exact.loss.host()), dlogits = doubles(exact.dlogits.host());
  const double sum = rounding_bound(DType::kFloat32, p.classes);
  const double stored = (p.dtype == DType::kBFloat16 ? unit_roundoff(p.dtype) : 0) +
                        16 * unit_roundoff(DType::kFloat32);
  expect_close("binary_cross_entropy_forward", what, p.loss.device(), loss, sum);
  expect_close("binary_cross_entropy_backward", what, p.dlogits.device(), dlogits, stored);
  EXPECT_LE(relative_error(doubles(p.loss.host()), loss), sum);
  EXPECT_LE(relative_error(doubles(p.dlogits.host()), dlogits), stored);
}

TEST(CudaBinaryCrossEntropy, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t classes : {1, 2, 7, 197, 1000, 1003, 2048, 21841}) {
      for (Kind kind : {Kind::kLabels, Kind::kSmoothed, Kind::kTargets, Kind::kShared}) {
        Problem p(dtype, classes > 2048 ? 1 : 5, classes, kind);
        check(p);
        p.threshold = 0.2;
        check(p);
        if (classes < 2048) check(Problem(dtype, 3, classes, kind, 1));
      }
    }
  }
}

// Answers that are almost certain have a tiny loss and gradient, which keep their precision.
TEST(CudaBinaryCrossEntropy, AccurateForSaturatedLogits) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    Problem p(dtype, 5, 37, Kind::kTargets, 0, -20, 1);
    p.threshold = 2;  // no target reaches it
    check(p);
    check(Problem(dtype, 5, 37, Kind::kLabels, 0, 0, 60));
  }
}

TEST(CudaBinaryCrossEntropy, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (Kind kind : {Kind::kShared, Kind::kTargets}) {
    under_every_schedule([&] {
      Problem p(DType::kFloat32, 2, 1000, kind);
      p.run_on_device();
      return std::vector{p.loss.device(), p.dlogits.device()};
    });
  }
}

TEST(CudaBinaryCrossEntropy, RunsInPlaceOverLogits) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t classes : {1000, 1003}) {
      Problem p(dtype, 3, classes, Kind::kShared);
      p.run_on_device();
      BinaryCrossEntropyBackward args = p.backward(kOnDevice);
      args.dlogits = const_cast<void*>(args.logits);
      run(cuda_queue(), args);
      EXPECT_TRUE(same_bits(p.logits.device(), p.dlogits.device()));
    }
  }
}

TEST(CudaBinaryCrossEntropy, NaNAndInfinity) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t classes : {5, 1000}) {
    Problem p(DType::kFloat32, 4, classes, Kind::kLabels);
    Doubles z = doubles(p.logits.host());
    const auto at = [&](std::int64_t row, std::int64_t k) -> double& {
      return z[static_cast<std::size_t>(row * classes + k)];
    };
    at(1, classes - 1) = NAN;
    const std::int64_t label = p.labels.host().data<std::int64_t>()[2];
    at(2, label) = INFINITY, at(2, (label + 1) % classes) = -INFINITY;  // certain and correct
    at(3, (p.labels.host().data<std::int64_t>()[3] + 1) % classes) = INFINITY;
    p.logits = Twin(from_doubles(z, {4 * classes}, DType::kFloat32));
    p.run_on_device();
    const Doubles loss = doubles(p.loss.device()), dz = doubles(p.dlogits.device());
    EXPECT_TRUE(std::isfinite(loss[0]) && std::isnan(loss[1]) && std::isfinite(loss[2]));
    EXPECT_EQ(loss[3], INFINITY);
    for (std::size_t i = 0; i < dz.size(); ++i) ASSERT_EQ(std::isnan(dz[i]), std::isnan(z[i])) << i;
  }
}

TEST(CudaBinaryCrossEntropy, InvalidLabelGivesNaNInItsRowOnly) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t label : {std::int64_t{-1}, std::int64_t{10}, kFar, -kFar - 1}) {
    Problem right(DType::kFloat32, 3, 10, Kind::kShared), wrong = right;
    wrong.make_outputs();
    Tensor l = right.labels.host().clone();
    l.data<std::int64_t>()[1] = label;
    wrong.labels = Twin(l);
    right.run_on_device();
    wrong.run_on_device();
    EXPECT_TRUE(std::isnan(doubles(wrong.loss.device())[1]));
    const Doubles got = doubles(wrong.dlogits.device()), want = doubles(right.dlogits.device());
    for (std::size_t i = 0; i < 30; ++i) {
      ASSERT_TRUE(i / 10 == 1 ? std::isnan(got[i]) : got[i] == want[i]);
    }
  }
}

TEST(CudaBinaryCrossEntropy, AcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  BinaryCrossEntropyForward empty{};
  empty.dtype = DType::kFloat32;
  empty.classes = 10;
  run(cuda_queue(), empty);
  BinaryCrossEntropyBackward wrong =
      Problem(DType::kFloat32, 1, 8, Kind::kLabels).backward(kOnDevice);
  wrong.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), wrong), Error);
}

}  // namespace
}  // namespace dtn::test
