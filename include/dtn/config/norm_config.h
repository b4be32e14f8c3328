// The choice of a normalizer and its options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dtn {

// A list has one value for each stage of the model.
using OptionValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;
// For messages: true, 0.5, [4, 2].
std::string to_string(const OptionValue& value);

// Form of a normalizer option in a config.
enum class OptionKind {
  kBool,
  kInt,             // within [min, max]
  kNumber,          // within [min, max]
  kChoice,          // one of `choices`; a choice that ends in ":<k>" takes a positive odd integer
  kChoiceOrNumber,  // a choice, or a number within [min, max]
};

// One option of one normalizer, declared once in its registry entry. The config loader, the help
// and the checks use it.
struct OptionSchema {
  std::string key;
  OptionKind kind;
  OptionValue default_value;
  std::vector<std::string> choices;
  double min = 0;
  double max = 0;
  std::string doc;
  bool per_stage = false;  // kInt: may be a list; the default comes from the model
};

// One of several choices; the first is the default.
inline OptionSchema choice_option(std::string key, std::vector<std::string> choices,
                                  std::string doc) {
  const OptionValue usual = choices.front();
  return {std::move(key), OptionKind::kChoice, usual, std::move(choices), 0, 0, std::move(doc)};
}
// A choice, which is the default, or a number within [min, max].
inline OptionSchema choice_or_number_option(std::string key, const std::string& choice, double min,
                                            double max, std::string doc) {
  return {std::move(key), OptionKind::kChoiceOrNumber, choice, {choice}, min, max, std::move(doc)};
}
// True or false; the default is false.
inline OptionSchema flag_option(std::string key, std::string doc) {
  return {std::move(key), OptionKind::kBool, false, {}, 0, 0, std::move(doc)};
}
// A number from 0 to 1.
inline OptionSchema share_option(std::string key, double usual, std::string doc) {
  return {std::move(key), OptionKind::kNumber, usual, {}, 0, 1, std::move(doc)};
}

struct NormConfig;

// The place of a normalizer in a model.
struct NormSite {
  std::int64_t channels, heads;
  std::int64_t grid_h = 0, grid_w = 0;  // 0: unknown
  int stage = 0;
};

// The reason why a normalizer cannot work at a site, and the option at fault (empty: none).
struct NormProblem {
  std::string option;
  std::string message;
};

// The registry entry of a normalizer for the config loader.
struct NormSchema {
  std::string type;
  std::string doc;
  std::vector<OptionSchema> options{};
  bool needs_grid = false;  // works on the token grid, so its tokens may not include a class token
  bool running_statistics = false;  // updated in training, used in evaluation
  bool reads_condition = false;     // gains and shifts come from a condition, see ConditionConfig
  // Keys of the section `model`, such as "condition.mapping", that only it reads.
  std::vector<std::string> reads{};
  // Requirements that only some model families meet, and the layer to use instead. A config can
  // choose the normalizer for a family that lists it in ModelSchema::meets. Empty: none.
  std::string needs{};
  // True if its backward pass in training is, on purpose, not the derivative of its forward pass.
  bool approximate_gradient = false;
  // Checks options and site beyond the ranges of the options.
  std::optional<NormProblem> (*check)(const NormConfig&, const NormSite&) = nullptr;

  // True if a config can choose it without a condition.
  bool stands_alone() const { return needs.empty() && !reads_condition; }
};

// An option with its value.
struct NormOption {
  std::string key;
  OptionValue value;
  bool operator==(const NormOption&) const = default;
};

// The section `norm` of a config, resolved.
struct NormConfig {
  std::string type = "ln";
  // Blocks [0, layers) use `type`, the others LayerNorm; the final norm is always LayerNorm.
  // Unset: class_token_at; depth without a class token, or if the normalizer takes the prefix.
  std::optional<int> layers{};
  std::optional<double> eps{};  // unset: the model's eps
  // Learned gain and shift of each channel. Unset: true, but false where a condition gives them.
  std::optional<bool> affine{};
  std::vector<NormOption> options{};  // complete: every option of the schema, defaults filled in

  // The value of an option; T is bool, int64_t, double or std::string.
  template <class T>
  const T* find(const std::string& key) const {
    for (const NormOption& o : options) {
      if (o.key == key) return std::get_if<T>(&o.value);
    }
    return nullptr;
  }
  // The value of a numeric option.
  std::optional<double> number(const std::string& key) const {
    if (const double* real = find<double>(key)) return *real;
    if (const std::int64_t* whole = find<std::int64_t>(key)) return static_cast<double>(*whole);
    return std::nullopt;
  }
  // The config for one stage, from 0: each list is replaced by its entry for the stage. Throws
  // Error if a list is too short.
  NormConfig at_stage(int stage) const;
  // True if a grid normalizer also takes prefix tokens (its option `prefix`).
  bool takes_prefix() const {
    const std::string* prefix = find<std::string>("prefix");
    return prefix && *prefix != "none";
  }
  bool operator==(const NormConfig&) const = default;
};

}  // namespace dtn
