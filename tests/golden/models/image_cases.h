// Image models with outputs and gradients, from files that make_dit_goldens.py and
// make_unet_goldens.py write.
#pragma once

#include <algorithm>
#include <cmath>

#include "dtn/nn/normalizer.h"
#include "golden/models/network_cases.h"
#include "unit/config/fake_norms.h"

namespace dtn::golden {

// Seeds of the scripts.
inline constexpr std::uint32_t kWeights = 2000, kProjection = 3000;

// A tensor in few numbers.
struct TensorSummary {
  std::string name;
  double largest, projection;
  Doubles some;  // values at even distances
};

inline TensorSummary read_summary(std::istream& words) {
  TensorSummary summary{};
  words >> summary.name >> summary.largest >> summary.projection;
  for (double v; words >> v;) summary.some.push_back(v);
  return summary;
}

inline void read_output(std::istream& words, Case& to) {
  std::vector<std::int64_t> dims;
  for (std::string word; words >> word && word != ":";) dims.push_back(std::stoll(word));
  to.shape = Shape(dims);
  for (double v; words >> v;) to.output.push_back(v);
}

// The real models and normalizers, with a task of this name.
inline ConfigSchemas schemas_of_task(const std::string& task) {
  ConfigSchemas schemas = testing::fake_schemas();
  schemas.norms = norm_registry().schemas();
  schemas.models = model_registry().schemas();
  schemas.tasks.front().name = task;
  schemas.tasks.front().gives_condition = true;
  return schemas;
}

// Bound of an output's error, relative to its largest value. The file has 9 digits. Sums have up to
// 64 products; about fifty sums follow one another.
inline double rounding_of(DType dtype) {
  return dtype == DType::kFloat64 ? 1e-8
                                  : 50 * test::unit_roundoff(DType::kFloat32) * std::sqrt(64.0);
}

// `tolerance` is relative to the largest value.
inline void expect_summary(const Tensor& tensor, const TensorSummary& want, double tolerance) {
  SCOPED_TRACE(want.name);
  const Doubles got = test::doubles(tensor);
  const auto count = static_cast<std::int64_t>(got.size());
  const double bound = tolerance * want.largest + 1e-12;
  EXPECT_NEAR(test::max_abs(got), want.largest, bound);
  const Doubles factors = values(kProjection, count, 1, 0);
  double projection = 0;
  for (std::size_t i = 0; i < got.size(); ++i) projection += got[i] * factors[i];
  EXPECT_NEAR(projection, want.projection, bound * std::sqrt(static_cast<double>(count)));
  const auto some = static_cast<std::int64_t>(want.some.size());
  ASSERT_EQ(some, 3);
  for (std::int64_t k = 0; k < some; ++k) {
    const auto at = static_cast<std::size_t>(k * count / some);
    EXPECT_NEAR(got[at], want.some[static_cast<std::size_t>(k)], bound) << at;
  }
}

inline void expect_gradients(const std::vector<TensorSummary>& gradients, ParameterStore& store,
                             double tolerance) {
  for (const TensorSummary& want : gradients) {
    const Parameter* p = store.find(want.name);
    ASSERT_NE(p, nullptr) << want.name;
    expect_summary(ParameterStore::view(store.gradients(), *p), want, tolerance);
  }
}

// Names and shapes, in alphabetic order.
inline std::vector<std::string> described(const NamedTensors& tensors) {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : tensors) all.push_back(name + " " + to_string(tensor.shape()));
  std::ranges::sort(all);
  return all;
}

}  // namespace dtn::golden
