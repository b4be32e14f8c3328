// Every conditional normalizer with its options, and a condition for each.
#pragma once

#include <memory>

#include "dtn/nn/conditional_norm.h"
#include "dtn/nn/moments.h"
#include "tensors.h"

namespace dtn::test {

constexpr std::int64_t kConditionSize = 5;  // also the number of styles

enum class ConditionKind { kNone, kVector, kTokens, kIndex };

struct ConditionalCase {
  std::string name;
  ConditionKind kind;
  std::function<std::unique_ptr<ConditionalNormalizer>(ParameterStore&, std::int64_t channels)>
      make;
  bool training = false;          // with the statistics of the batch
  bool wide = false;              // the condition has as many channels as x
  std::int64_t extra_tokens = 0;  // tokens of the condition beyond those of x
};

inline std::vector<ConditionalCase> conditional_cases() {
  using Store = ParameterStore;
  constexpr double kEps = 1e-3;
  std::vector<ConditionalCase> all;
  for (bool silu : {true, false}) {
    all.push_back(
        {silu ? "adaln_silu" : "adaln", ConditionKind::kVector, [=](Store& s, std::int64_t c) {
           return std::make_unique<AdaptiveLayerNorm>(
               Scope(s, "norm"),
               AdaptiveLayerNorm::Options{
                   .channels = c, .condition = kConditionSize, .silu = silu, .eps = kEps});
         }});
  }
  all.push_back({"dln", ConditionKind::kNone, [](Store& s, std::int64_t c) {
                   return std::make_unique<DynamicLayerNorm>(
                       Scope(s, "norm"),
                       DynamicLayerNorm::Options{.channels = c, .summary = 6, .eps = kEps});
                 }});
  for (ConditionKind kind : {ConditionKind::kIndex, ConditionKind::kVector}) {
    all.push_back({kind == ConditionKind::kIndex ? "cin_index" : "cin_mixed", kind,
                   [](Store& s, std::int64_t c) {
                     return std::make_unique<ConditionalInstanceNorm>(
                         Scope(s, "norm"),
                         ConditionalInstanceNorm::Options{
                             .channels = c, .styles = kConditionSize, .eps = kEps});
                   }});
  }
  all.push_back({"adain", ConditionKind::kTokens, [](Store&, std::int64_t c) {
                   return std::make_unique<AdaptiveInstanceNorm>(
                       AdaptiveInstanceNorm::Options{.channels = c, .eps = kEps});
                 }});
  all.back().wide = true;
  all.back().extra_tokens = 3;
  for (bool training : {false, true}) {
    const std::string suffix = training ? "_training" : "";
    all.push_back({"cbn" + suffix, ConditionKind::kVector,
                   [](Store& s, std::int64_t c) {
                     return std::make_unique<ConditionalBatchNorm>(
                         Scope(s, "norm"),
                         ConditionalBatchNorm::Options{
                             .channels = c, .condition = kConditionSize, .hidden = 7, .eps = kEps});
                   },
                   training});
    for (auto base :
         {SpatiallyAdaptiveNorm::Base::kBatch, SpatiallyAdaptiveNorm::Base::kInstance}) {
      const bool batch = base == SpatiallyAdaptiveNorm::Base::kBatch;
      if (training && !batch) continue;
      all.push_back({(batch ? "spade_batch" : "spade_instance") + suffix, ConditionKind::kTokens,
                     [=](Store& s, std::int64_t c) {
                       return std::make_unique<SpatiallyAdaptiveNorm>(
                           Scope(s, "norm"),
                           SpatiallyAdaptiveNorm::Options{.channels = c,
                                                          .condition = kConditionSize,
                                                          .hidden = 4,
                                                          .base = base,
                                                          .eps = kEps});
                     },
                     training});
    }
  }
  return all;
}

struct BuiltConditional {
  ParameterStore store;
  std::unique_ptr<ConditionalNormalizer> norm;
};

// Builds a normalizer. Parameters have their initial values plus noise; buffers have values as
// after training.
inline std::unique_ptr<BuiltConditional> build_conditional(const ConditionalCase& c,
                                                           std::int64_t channels, DType dtype,
                                                           double noise = 0.3) {
  auto built = std::make_unique<BuiltConditional>();
  built->norm = c.make(built->store, channels);
  built->store.allocate(dtype);
  built->store.initialize(3);
  std::uint32_t stream = 700;
  auto move = [&](const Tensor& value, bool positive) {
    Tensor shift = random_tensor(value.shape(), stream++, noise);
    Doubles moved = doubles(value);
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] += element(shift, static_cast<std::int64_t>(i));
      if (positive) moved[i] = std::abs(moved[i]);
    }
    // Rounded to bfloat16, so that every type has the same numbers.
    assign(value, from_doubles(moved, value.shape(), DType::kBFloat16));
  };
  for (Parameter& p : built->store.parameters()) move(p.variable.value(), false);
  for (const Buffer& b : built->store.buffers()) move(b.value, b.name.ends_with("var"));
  built->store.restart_buffers();
  return built;
}

// Returns the values of the condition in float64; undefined for an index or no condition.
inline Tensor condition_values(const ConditionalCase& c, std::int64_t batch, std::int64_t tokens,
                               std::int64_t channels) {
  const std::int64_t size = c.wide ? channels : kConditionSize;
  if (c.kind == ConditionKind::kVector) return representable(random_tensor({batch, size}, 21, 1.5));
  if (c.kind == ConditionKind::kTokens) {
    return representable(random_tensor({batch, tokens + c.extra_tokens, size}, 22, 1.5));
  }
  return {};
}

inline Condition make_condition(const ConditionalCase& c, std::int64_t batch, const Variable& v) {
  switch (c.kind) {
    case ConditionKind::kNone: return {};
    case ConditionKind::kVector: return Condition::of_vector(v);
    case ConditionKind::kTokens: return Condition::of_tokens(v);
    case ConditionKind::kIndex: break;
  }
  std::vector<std::int64_t> index;
  for (std::int64_t b = 0; b < batch; ++b) index.push_back((3 * b + 1) % kConditionSize);
  return Condition::of_index(Tensor::from(index, {batch}));
}

}  // namespace dtn::test
