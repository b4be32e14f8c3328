// Every normalizer of the registry with the values of its options.
#pragma once

#include <algorithm>
#include <memory>

#include "dtn/nn/normalizer.h"
#include "tensors.h"

namespace dtn::test {

struct NormCase {
  std::string name;  // "dtn variant=paper lambda=0.3 ..."
  NormConfig config;
  bool training = false;  // with the statistics of the batch, if there are running ones too
};

// Values to test for one option: every choice, and a number inside the range (for a count, the
// smallest).
inline std::vector<OptionValue> option_values(const OptionSchema& option) {
  if (option.kind == OptionKind::kBool) return {false, true};
  std::vector<OptionValue> values;
  for (std::string choice : option.choices) {
    if (choice.ends_with("<k>")) choice.replace(choice.size() - 3, 3, "3");
    values.emplace_back(choice);
  }
  if (option.kind == OptionKind::kChoiceOrNumber) {
    const bool counts = option.min >= 1;
    values.emplace_back(option.min + (counts ? 0 : 0.3 * (option.max - option.min)));
  }
  if (option.kind == OptionKind::kInt)
    values.emplace_back(static_cast<std::int64_t>(option.min) + 1);
  if (values.empty()) values.push_back(option.default_value);
  return values;
}

// Every value of every option, and every pair of values of two options, with the others at their
// defaults.
inline std::vector<NormConfig> norm_configs(const NormSchema& schema) {
  NormConfig plain;
  plain.type = schema.type;
  for (const OptionSchema& o : schema.options) plain.options.push_back({o.key, o.default_value});
  std::vector<NormConfig> all = {plain};
  auto add_variations = [&](const NormConfig& of, std::size_t first, auto&& then) {
    for (std::size_t i = first; i < schema.options.size(); ++i) {
      for (const OptionValue& value : option_values(schema.options[i])) {
        if (value == schema.options[i].default_value) continue;
        NormConfig varied = of;
        varied.options[i].value = value;
        all.push_back(varied);
        then(varied, i + 1);
      }
    }
  };
  add_variations(plain, 0, [&](const NormConfig& one, std::size_t next) {
    add_variations(one, next, [](const NormConfig&, std::size_t) {});
  });
  return all;
}

inline const NormSchema& schema_of(const NormConfig& config) {
  return norm_registry().at(config.type).schema;
}
inline const NormSchema& schema_of(const NormCase& c) { return schema_of(c.config); }

// True if these options may be combined and used at this site. Other options have their defaults.
inline bool fits(NormConfig config, const NormSite& site) {
  const NormSchema& schema = schema_of(config);
  for (const OptionSchema& o : schema.options) {
    const bool given = std::ranges::any_of(
        config.options, [&](const NormOption& option) { return option.key == o.key; });
    if (!given) config.options.push_back({o.key, o.default_value});
  }
  return !schema.check || !schema.check(config, site);
}
inline bool fits(const NormCase& c, const NormShape& shape) {
  return fits(c.config, {shape.channels, shape.heads, shape.grid.height, shape.grid.width});
}

inline std::vector<NormCase> cases_of(const NormSchema& schema) {
  std::vector<NormCase> all;
  for (const NormConfig& config : norm_configs(schema)) {
    if (!fits(config, {5040, 12})) continue;  // divisible by all sensible options
    NormCase c{schema.type, config};
    for (const NormOption& o : config.options) c.name += cat(" ", o.key, "=", to_string(o.value));
    all.push_back(c);
    if (!schema.running_statistics) continue;
    c.name += " training";
    c.training = true;
    all.push_back(std::move(c));
  }
  return all;
}

// All but those of conditional_cases.h, where layers of a network give the gain and shift: not one
// operation, and rounded to the type of the tokens on the way.
inline std::vector<NormCase> norm_cases() {
  std::vector<NormCase> all;
  for (const NormSchema& schema : norm_registry().schemas()) {
    if (!schema.stands_alone() || schema.type == "dln") continue;
    for (NormCase& c : cases_of(schema)) all.push_back(std::move(c));
  }
  return all;
}

struct BuiltNorm {
  ParameterStore store;
  std::unique_ptr<Normalizer> norm;
};

// True if normalizers of this type have a weight, which norm.affine: false leaves out.
inline bool has_weight(const std::string& type) {
  NormConfig config;
  config.type = type;
  ParameterStore store;
  const auto norm = make_normalizer(config, {12, 4, kDefaultNormEps}, {store, "norm"});
  return store.find("norm.weight") != nullptr;
}

// Builds a normalizer. Parameters have their initial values plus noise, so that no gradient is zero
// by symmetry.
inline std::unique_ptr<BuiltNorm> build_norm(const NormConfig& config, const NormShape& shape,
                                             DType dtype, double noise = 0.3) {
  auto built = std::make_unique<BuiltNorm>();
  built->norm = make_normalizer(config, shape, {built->store, "norm"});
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
    // Rounded to bfloat16, so that every type has the same numbers.
    value.copy_from(as(from_doubles(sum, p.shape, DType::kBFloat16), dtype));
  }
  // Buffers have values as after training; variances stay positive.
  for (const Buffer& b : built->store.buffers()) {
    Doubles moved = doubles(b.value);
    Tensor shift = random_tensor(b.shape, stream++, noise);
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] = std::abs(moved[i] + element(shift, static_cast<std::int64_t>(i)));
    }
    Tensor value = b.value;
    value.copy_from(as(from_doubles(moved, b.shape, DType::kBFloat16), dtype));
  }
  built->store.restart_buffers();
  return built;
}

// The bias of a softmax over keys has no effect. It exists for old weight files.
inline bool is_inert(const Parameter& p) { return p.name.ends_with("pos_proj.bias"); }

}  // namespace dtn::test
