// The linear classifier on frozen features, against the same steps written out in float64.
#include "tasks/frozen/linear_probe.h"

#include <algorithm>
#include <numbers>

#include "dtn/models/weights.h"
#include "tensors.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kRows = 50, kWidth = 9, kClasses = 4;

Tensor probe_features() { return as(random_tensor({kRows, kWidth}, 1), DType::kFloat32); }

Tensor probe_labels() {
  Tensor labels = Tensor::empty({kRows}, DType::kInt64);
  for (std::int64_t i = 0; i < kRows; ++i) labels.data<std::int64_t>()[i] = i * 7 % kClasses;
  return labels;
}

Doubles weights_of(LinearProbe& probe) {
  Doubles all;
  for (const auto& [name, tensor] : named_values(probe.parameters())) {
    const Doubles values = doubles(tensor);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// SGD with momentum on softmax regression. Weights [classes, width + 1]: the bias is last.
class PlainProbe {
 public:
  explicit PlainProbe(Doubles start) : w_(std::move(start)), velocity_(w_.size()) {}

  void step(const Tensor& x, const Tensor& labels, std::int64_t first, std::int64_t last,
            double rate) {
    Doubles gradient(w_.size());
    for (std::int64_t i = first; i < last; ++i) {
      Doubles p = logits(x, i);
      const double largest = std::ranges::max(p);
      double sum = 0;
      for (double& v : p) sum += v = std::exp(v - largest);
      for (std::int64_t k = 0; k < kClasses; ++k) {
        const double error = p[static_cast<std::size_t>(k)] / sum -
                             (labels.data<std::int64_t>()[i] == k ? 1.0 : 0.0);
        for (std::int64_t c = 0; c <= kWidth; ++c) {
          gradient[at(k, c)] += error * input(x, i, c) / static_cast<double>(last - first);
        }
      }
    }
    for (std::size_t j = 0; j < w_.size(); ++j) {
      velocity_[j] = 0.9 * velocity_[j] + gradient[j];
      w_[j] -= rate * velocity_[j];
    }
  }
  Doubles logits(const Tensor& x, std::int64_t i) const {
    Doubles z(kClasses);
    for (std::int64_t k = 0; k < kClasses; ++k) {
      for (std::int64_t c = 0; c <= kWidth; ++c) {
        z[static_cast<std::size_t>(k)] += w_[at(k, c)] * input(x, i, c);
      }
    }
    return z;
  }
  double weight(std::int64_t k, std::int64_t c) const { return w_[at(k, c)]; }

 private:
  static std::size_t at(std::int64_t k, std::int64_t c) {
    return static_cast<std::size_t>(k * (kWidth + 1) + c);
  }
  static double input(const Tensor& x, std::int64_t i, std::int64_t c) {
    return c == kWidth ? 1 : element(x, i * kWidth + c);
  }

  Doubles w_, velocity_;
};

PlainProbe plain_copy(LinearProbe& probe) {
  const Tensor weight = probe.parameters().find("linear.weight")->variable.value();
  Doubles start;
  for (std::int64_t k = 0; k < kClasses; ++k) {
    for (std::int64_t c = 0; c < kWidth; ++c) start.push_back(element(weight, k * kWidth + c));
    start.push_back(0);
  }
  return PlainProbe(start);
}

// Batches of 16 of 50 rows: the last has 2.
TEST(LinearProbe, StepsEqualPlainSteps) {
  const Tensor x = probe_features(), labels = probe_labels();
  LinearProbe probe(kWidth, kClasses, {.epochs = 3, .lr = 4, .batch = 16, .seed = 5});
  PlainProbe plain = plain_copy(probe);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const double rate = 4.0 * 16 / 256 * (1 + std::cos(std::numbers::pi * epoch / 3)) / 2;
    EXPECT_DOUBLE_EQ(probe.rate(epoch), rate);
    probe.begin_epoch(epoch);
    probe.add(x, labels);
    probe.end_epoch();
    for (std::int64_t first = 0; first < kRows; first += 16) {
      plain.step(x, labels, first, std::min(kRows, first + 16), rate);
    }
  }
  const Tensor weight = probe.parameters().find("linear.weight")->variable.value();
  const Tensor bias = probe.parameters().find("linear.bias")->variable.value();
  for (std::int64_t k = 0; k < kClasses; ++k) {
    EXPECT_NEAR(element(bias, k), plain.weight(k, kWidth), 1e-6);
    for (std::int64_t c = 0; c < kWidth; ++c) {
      EXPECT_NEAR(element(weight, k * kWidth + c), plain.weight(k, c), 1e-6);
    }
  }
  const Tensor logits = probe.logits(x.slice(3, 4));
  for (std::int64_t k = 0; k < kClasses; ++k) {
    EXPECT_NEAR(element(logits, k), plain.logits(x, 3)[static_cast<std::size_t>(k)], 1e-5);
  }
}

TEST(LinearProbe, PiecesOfAnySizeGiveTheSameBits) {
  const Tensor x = probe_features(), labels = probe_labels();
  std::vector<Doubles> results;
  for (std::int64_t piece : {kRows, std::int64_t{1}, std::int64_t{7}, std::int64_t{16}}) {
    LinearProbe probe(kWidth, kClasses, {.epochs = 2, .lr = 1, .batch = 16});
    for (int epoch = 0; epoch < 2; ++epoch) {
      probe.begin_epoch(epoch);
      for (std::int64_t first = 0; first < kRows; first += piece) {
        const std::int64_t last = std::min(kRows, first + piece);
        probe.add(x.slice(first, last), labels.slice(first, last));
      }
      probe.end_epoch();
    }
    results.push_back(weights_of(probe));
  }
  for (const Doubles& other : results) EXPECT_EQ(other, results[0]);
}

TEST(LinearProbe, StartsFromSmallNormalWeightsAndNoBias) {
  LinearProbe probe(500, 40, {.seed = 3});
  Parameter* weight = probe.parameters().find("linear.weight");
  double sum = 0, squares = 0;
  for (double w : doubles(weight->variable.value())) {
    sum += w;
    squares += w * w;
  }
  EXPECT_NEAR(sum / 20000, 0, 4 * 0.01 / std::sqrt(20000.0));
  EXPECT_NEAR(std::sqrt(squares / 20000), 0.01, 0.0003);
  EXPECT_EQ(max_abs(doubles(probe.parameters().find("linear.bias")->variable.value())), 0);
}

}  // namespace
}  // namespace dtn::test
