// Every normalizer of the registry with every combination of its options.
#pragma once

#include <memory>

#include "dtn/nn/normalizer.h"
#include "tensors.h"

namespace dtn::test {

struct NormCase {
  std::string name;  // "dtn variant=paper lambda=0.3 ..."
  NormConfig config;
};

// The values tried for one option: every choice, and a number inside the range.
inline std::vector<OptionValue> option_values(const OptionSchema& option) {
  if (option.kind == OptionKind::kBool) return {false, true};
  std::vector<OptionValue> values;
  for (std::string choice : option.choices) {
    if (choice.ends_with("<k>")) choice.replace(choice.size() - 3, 3, "3");
    values.emplace_back(choice);
  }
  if (option.kind == OptionKind::kChoiceOrNumber) {
    values.emplace_back(option.min + 0.3 * (option.max - option.min));
  }
  if (values.empty()) values.push_back(option.default_value);
  return values;
}

inline std::string text_of(const OptionValue& value) {
  return std::visit([](const auto& v) { return cat(v); }, value);
}

inline std::vector<NormCase> norm_cases() {
  std::vector<NormCase> all;
  for (const NormRow& row : norm_registry()) {
    std::vector<NormCase> cases(1);
    cases[0].name = cases[0].config.type = row.schema.type;
    for (const OptionSchema& option : row.schema.options) {
      std::vector<NormCase> next;
      for (const NormCase& c : cases) {
        for (const OptionValue& value : option_values(option)) {
          NormCase& n = next.emplace_back(c);
          n.name += cat(" ", option.key, "=", text_of(value));
          n.config.options.push_back({option.key, value});
        }
      }
      cases = std::move(next);
    }
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

struct BuiltNorm {
  ParameterStore store;
  std::unique_ptr<Normalizer> norm;
};

// Parameters at their initial values plus noise, so that no gradient is zero by symmetry.
inline std::unique_ptr<BuiltNorm> build_norm(const NormConfig& config, const NormShape& shape,
                                             DType dtype, double noise = 0.3) {
  auto built = std::make_unique<BuiltNorm>();
  built->norm = make_normalizer(config, shape, built->store, "norm");
  built->store.allocate(dtype);
  built->store.initialize(3);
  std::uint32_t stream = 500;
  for (Parameter& p : built->store.parameters()) {
    Tensor value = p.variable.value();
    Tensor shift = random_tensor(p.shape, stream++, noise);
    Doubles sum = doubles(value);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += element(shift, static_cast<std::int64_t>(i));
    }
    // Through bfloat16, so that every type holds the same numbers.
    value.copy_from(as(from_doubles(sum, p.shape, DType::kBFloat16), dtype));
  }
  return built;
}

// The bias of a softmax over keys moves nothing; it exists for the sake of old weight files.
inline bool is_inert(const Parameter& p) { return p.name.ends_with("pos_proj.bias"); }

}  // namespace dtn::test
