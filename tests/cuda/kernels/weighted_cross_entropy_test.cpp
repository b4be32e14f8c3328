#include "kernels/loss/weighted_cross_entropy.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// Form of the loss.
struct Form {
  bool smoothed = false, shared = false, dense = false, weighted = true;
  double gamma = 0;
};

std::string describe(const Form& f) {
  return cat(f.dense    ? "targets"
             : f.shared ? "shared labels"
                        : "labels",
             f.smoothed ? ", smoothed" : "", f.weighted ? ", weighted" : "", ", gamma ", f.gamma);
}

// Inputs and outputs of both kernels. Logits begin `shift` elements into their memory. With shift 1
// no vector load can read them.
struct WeightedTwins {
  DType dtype;
  std::int64_t rows, classes, shift;
  Form form;
  Twin logits, labels, partners, share, targets, weights, upstream, loss, lse, dlogits;

  WeightedTwins(DType d, std::int64_t r, std::int64_t k, const Form& what, double mean = 0,
                double spread = 3, std::int64_t shifted = 0)
      : dtype(d), rows(r), classes(k), shift(shifted), form(what) {
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
    Doubles w = doubles(random_tensor({k}, 3, 1, 1));
    w[0] = 0;
    weights = Twin(from_doubles(w, {k}, DType::kFloat32));
    upstream = Twin(Tensor::full({1}, DType::kFloat32, -0.75));
    make_outputs();
  }
  WeightedTwins in_float64() const {
    WeightedTwins p = *this;
    p.dtype = DType::kFloat64;
    for (Twin* t : {&p.logits, &p.targets, &p.weights, &p.upstream}) {
      *t = Twin(as(t->host(), p.dtype));
    }
    p.make_outputs();
    return p;
  }
  void make_outputs() {
    loss = Twin::output({rows}, accumulator_of(dtype));
    lse = Twin::output({rows}, accumulator_of(dtype));
    dlogits = Twin::output({rows * classes + shift}, dtype);
  }
  void* at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) + static_cast<std::size_t>(shift) * size_of(dtype);
  }
  WeightedCrossEntropyInputs inputs(Where w) const {
    WeightedCrossEntropyInputs in{};
    in.dtype = dtype;
    in.rows = rows;
    in.classes = classes;
    in.logits = at(logits, w);
    in.class_weights = form.weighted ? weights.at(w) : nullptr;
    in.gamma = form.gamma;
    if (form.dense) {
      in.targets = targets.at(w);
      return in;
    }
    in.labels = static_cast<const std::int64_t*>(labels.at(w));
    in.smoothing = form.smoothed ? 0.1 : 0;
    if (!form.shared) return in;
    in.partner_labels = static_cast<const std::int64_t*>(partners.at(w));
    in.label_share = static_cast<const float*>(share.at(w));
    return in;
  }
  WeightedCrossEntropyForward forward(Where w) const { return {inputs(w), loss.at(w), lse.at(w)}; }
  WeightedCrossEntropyBackward backward(Where w) const {
    return {inputs(w), lse.at(w), 0.25, at(dlogits, w), upstream.at(w)};
  }
  void run_on_device() const {
    run(cuda_queue(), forward(kOnDevice));
    run(cuda_queue(), backward(kOnDevice));
  }
};

// Compares the device and the host kernels with float64, within the same bounds. The gradient
// depends on z - lse by an exponential and a power, so the rounding error of lse is a relative
// error of the gradient.
void check(const WeightedTwins& p) {
  const std::string what =
      cat(p.rows, " x ", p.classes, " ", describe(p.form), p.shift ? " shifted" : "");
  SCOPED_TRACE(cat(name_of(p.dtype), " ", what));
  WeightedTwins exact = p.in_float64();
  run(cpu_queue(), exact.forward(kOnHost));
  run(cpu_queue(), exact.backward(kOnHost));
  run(cpu_queue(), p.forward(kOnHost));
  run(cpu_queue(), p.backward(kOnHost));
  p.run_on_device();

  const double sum = (1 + p.form.gamma) * rounding_bound(DType::kFloat32, p.classes);
  const Doubles loss = doubles(exact.loss.host()), lse = doubles(exact.lse.host());
  const Doubles dlogits = doubles(exact.dlogits.host());
  const double stored =
      (p.dtype == DType::kBFloat16 ? unit_roundoff(p.dtype) : 0) + sum +
      4 * (1 + p.form.gamma) * unit_roundoff(DType::kFloat32) * (1 + max_abs(lse));
  expect_close("weighted_cross_entropy_forward", "loss " + what, p.loss.device(), loss, sum, 1);
  expect_close("weighted_cross_entropy_forward", "lse " + what, p.lse.device(), lse, sum, 1);
  expect_close("weighted_cross_entropy_backward", what, p.dlogits.device(), dlogits, stored);
  EXPECT_LE(relative_error(doubles(p.loss.host()), loss, 1), sum);
  EXPECT_LE(relative_error(doubles(p.dlogits.host()), dlogits), stored);
}

std::vector<Form> forms() {
  return {{.gamma = 2},
          {.smoothed = true},
          {.smoothed = true, .shared = true, .gamma = 0.5},
          {.dense = true, .gamma = 2},
          {.dense = true, .weighted = false}};
}

TEST(CudaWeightedCrossEntropy, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t classes : {2, 7, 10, 197, 1000, 1003, 2048, 21841}) {
      for (const Form& form : forms()) {
        check(WeightedTwins(dtype, classes > 2048 ? 1 : 5, classes, form));
        if (classes < 2048) check(WeightedTwins(dtype, 3, classes, form, 0, 3, 1));
      }
    }
  }
}

TEST(CudaWeightedCrossEntropy, AccurateForLargeOffsetsAndSpreads) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (const Form& form : forms()) {
      check(WeightedTwins(dtype, 5, 37, form, 1000, 1));
      check(WeightedTwins(dtype, 5, 37, form, 0, 300));
    }
  }
}

TEST(CudaWeightedCrossEntropy, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Form& form : forms()) {
    under_every_schedule([&] {
      WeightedTwins p(DType::kFloat32, 2, 1000, form);
      p.run_on_device();
      return std::vector{p.loss.device(), p.lse.device(), p.dlogits.device()};
    });
  }
}

TEST(CudaWeightedCrossEntropy, RunsInPlaceOverLogits) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t classes : {1000, 1003}) {
      for (const Form& form : forms()) {
        WeightedTwins p(dtype, 3, classes, form);
        p.run_on_device();
        WeightedCrossEntropyBackward args = p.backward(kOnDevice);
        args.dlogits = const_cast<void*>(args.logits);
        run(cuda_queue(), args);
        EXPECT_TRUE(same_bits(p.logits.device(), p.dlogits.device()));
      }
    }
  }
}

TEST(CudaWeightedCrossEntropy, NaNAndInvalidLabelsStayInTheirRow) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const bool invalid : {false, true}) {
    WeightedTwins p(DType::kFloat32, 3, 197, {.gamma = 2});
    if (invalid) {
      Tensor l = p.labels.host();
      l.data<std::int64_t>()[1] = 197;
      p.labels = Twin(l);
    } else {
      Doubles z = doubles(p.logits.host());
      z[197 + 5] = NAN;
      p.logits = Twin(from_doubles(z, {3 * 197}, DType::kFloat32));
    }
    p.run_on_device();
    const Doubles loss = doubles(p.loss.device()), dz = doubles(p.dlogits.device());
    for (std::size_t row = 0; row < 3; ++row) {
      EXPECT_EQ(std::isnan(loss[row]), row == 1);
      for (std::size_t k = 0; k < 197; ++k) {
        EXPECT_EQ(std::isnan(dz[197 * row + k]), row == 1) << row << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
