// The supervised contrastive loss in float64, written from its definition in loops, and batches to
// try it on.
#pragma once

#include <string>
#include <vector>

#include "dtn/ops/contrastive.h"
#include "tensors.h"

namespace dtn::test {

// Rows of features that are compared with each other.
struct ContrastiveBatch {
  std::string name;
  std::vector<std::int64_t> labels;  // of all rows
  std::int64_t dim;
  double temperature = 0.07, base_temperature = 0.07;

  std::int64_t rows() const { return static_cast<std::int64_t>(labels.size()); }
  Tensor labels_on(Device device) const { return Tensor::from(labels, {rows()}).to(device); }
  ops::Contrast contrast(Device device = kCpu) const {
    return {temperature, base_temperature, labels_on(device), {}, {}};
  }
  // Rows of length 1, rounded to `dtype`.
  Tensor features(DType dtype) const {
    Tensor z = random_tensor({rows(), dim}, static_cast<std::uint32_t>(50 + rows()));
    double* v = z.data<double>();
    for (std::int64_t i = 0; i < rows(); ++i, v += dim) {
      double squares = 0;
      for (std::int64_t c = 0; c < dim; ++c) squares += v[c] * v[c];
      for (std::int64_t c = 0; c < dim; ++c) v[c] /= std::sqrt(squares);
    }
    return as(z, dtype);
  }
};

// The labels of `samples` samples, sample-major: row views i + v has the label of sample i.
inline std::vector<std::int64_t> labels_of_views(std::int64_t samples, std::int64_t views,
                                                 std::int64_t classes) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < samples * views; ++i) labels.push_back(i / views * 7 % classes);
  return labels;
}

inline std::vector<ContrastiveBatch> contrastive_batches() {
  std::vector<std::int64_t> singletons = labels_of_views(9, 2, 4);
  singletons[3] = 100;
  singletons[10] = -5;
  std::vector<std::int64_t> distinct(7);
  for (std::size_t i = 0; i < distinct.size(); ++i) distinct[i] = static_cast<std::int64_t>(i);
  distinct[6] = distinct[0];
  return {{"2 views", labels_of_views(16, 2, 5), 24},
          {"3 views", labels_of_views(11, 3, 4), 17},
          {"singletons", singletons, 8},
          {"one pair", distinct, 5},
          {"one label", labels_of_views(10, 2, 1), 12, 0.1, 0.1},
          {"2 views, labels are samples", labels_of_views(20, 2, 20), 16, 0.5, 0.07},
          {"3 views, labels are samples", labels_of_views(19, 3, 19), 33, 0.1, 0.2},
          {"three rows", {4, 4, 7}, 3}};
}

struct ContrastiveOracle {
  double loss = 0, without_positives = 0;
  Doubles dz;  // [m, D]
};

inline ContrastiveOracle contrastive_oracle(const ContrastiveBatch& batch, const Tensor& features) {
  const std::int64_t m = batch.rows(), dim = batch.dim;
  const Doubles z = doubles(features);
  const auto share = 1 / static_cast<double>(m);
  ContrastiveOracle result;
  result.dz.assign(z.size(), 0);
  const auto at = [&](std::int64_t i, std::int64_t c) {
    return static_cast<std::size_t>(i * dim + c);
  };
  const auto similarity = [&](std::int64_t i, std::int64_t j) {
    double dot = 0;
    for (std::int64_t c = 0; c < dim; ++c) dot += z[at(i, c)] * z[at(j, c)];
    return dot / batch.temperature;
  };
  for (std::int64_t i = 0; i < m; ++i) {
    const auto is_positive = [&](std::int64_t j) {
      return batch.labels[static_cast<std::size_t>(j)] == batch.labels[static_cast<std::size_t>(i)];
    };
    double sum = 0, positives = 0;
    for (std::int64_t j = 0; j < m; ++j) {
      if (j == i) continue;
      sum += std::exp(similarity(i, j));
      positives += is_positive(j) ? 1 : 0;
    }
    if (positives == 0) {
      result.without_positives += share;
      continue;
    }
    const double factor = batch.temperature / batch.base_temperature * share;
    for (std::int64_t j = 0; j < m; ++j) {
      if (j == i) continue;
      const double s = similarity(i, j), target = is_positive(j) ? 1 / positives : 0;
      result.loss -= factor * target * (s - std::log(sum));
      const double ds = factor * (std::exp(s) / sum - target);
      for (std::int64_t c = 0; c < dim; ++c) {
        result.dz[at(i, c)] += ds * z[at(j, c)] / batch.temperature;
        result.dz[at(j, c)] += ds * z[at(i, c)] / batch.temperature;
      }
    }
  }
  return result;
}

// Values and gradient of one call.
struct ContrastiveRun {
  Tensor loss, without_positives, dz;  // on the host
};

inline ContrastiveRun run_contrastive(const Tensor& z, const ops::Contrast& how) {
  const Variable leaf(z, true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const ops::ContrastiveLoss r = ops::contrastive(ctx, leaf, how);
  tape.backward(r.loss);
  return {r.loss.value().to(kCpu), r.without_positives.to(kCpu), leaf.grad().to(kCpu)};
}

// Compares with the oracle on the same features: the loss within `tolerance` of its value, the
// gradient within `gradient_tolerance` of its largest value.
inline void expect_oracle(const ContrastiveBatch& batch, const Tensor& features,
                          const ContrastiveRun& run, double tolerance, double gradient_tolerance) {
  const ContrastiveOracle want = contrastive_oracle(batch, features);
  EXPECT_GT(want.loss, 0);
  EXPECT_GT(max_abs(want.dz), 0);
  EXPECT_NEAR(element(run.loss, 0), want.loss, tolerance * want.loss);
  EXPECT_LE(max_abs_difference(doubles(run.dz), want.dz), gradient_tolerance * max_abs(want.dz));
  EXPECT_EQ(run.without_positives.dtype(), DType::kFloat32);
  EXPECT_NEAR(element(run.without_positives, 0), want.without_positives, 1e-6);
}

}  // namespace dtn::test
