// Which normalizer a model uses and how it is set up.
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
// For people: true, 0.5, [4, 2].
std::string to_string(const OptionValue& value);

// How the value of a normalizer option is written in a config.
enum class OptionKind {
  kBool,
  kInt,             // within [min, max]
  kNumber,          // within [min, max]
  kChoice,          // one of `choices`; a choice that ends in ":<k>" takes a positive odd integer
  kChoiceOrNumber,  // a choice, or a number within [min, max]
};

// One option of one normalizer, declared once in its registry row; the config loader, the help and
// the checks read it from there.
struct OptionSchema {
  std::string key;
  OptionKind kind;
  OptionValue default_value;
  std::vector<std::string> choices;
  double min = 0;
  double max = 0;
  std::string doc;
  bool per_stage = false;  // of kInt: a list, too; the default is the model's own
};

struct NormConfig;

// Where a normalizer is to stand.
struct NormSite {
  std::int64_t channels, heads;
  std::int64_t grid_h = 0, grid_w = 0;  // 0: not known yet
  int stage = 0;
};

// Why a normalizer cannot stand there, and the option to blame (empty: none of its own).
struct NormProblem {
  std::string option;
  std::string message;
};

// A registry row, as the config loader sees it.
struct NormSchema {
  std::string type;
  std::string doc;
  std::vector<OptionSchema> options;
  bool needs_grid = false;  // works on the token grid, so a class token may not be among its tokens
  bool running_statistics = false;  // gathered in training, used in evaluation
  // What it wants that a plain vision transformer does not have, and where to turn to then; such a
  // normalizer is listed, but no config can choose it. Empty for the others.
  std::string needs{};
  // Its backward pass is not the derivative of its forward pass in training, on purpose.
  bool approximate_gradient = false;
  // What options and site must fulfil beyond the ranges of the options.
  std::optional<NormProblem> (*check)(const NormConfig&, const NormSite&) = nullptr;
};

struct NormOption {
  std::string key;
  OptionValue value;
  bool operator==(const NormOption&) const = default;
};

struct NormConfig {
  std::string type = "ln";
  // Blocks [0, layers) use `type`, the others LayerNorm; the final norm is always LayerNorm.
  // Unset: class_token_at, or depth without a class token and where the prefix is taken.
  std::optional<int> layers{};
  std::optional<double> eps{};        // unset: the model's eps
  std::vector<NormOption> options{};  // complete: every option of the schema, defaults filled in

  // The value of an option; T is bool, int64_t, double or std::string.
  template <class T>
  const T* find(const std::string& key) const {
    for (const NormOption& o : options) {
      if (o.key == key) return std::get_if<T>(&o.value);
    }
    return nullptr;
  }
  // The value of an option that is a number, whole or not.
  std::optional<double> number(const std::string& key) const {
    if (const double* real = find<double>(key)) return *real;
    if (const std::int64_t* whole = find<std::int64_t>(key)) return static_cast<double>(*whole);
    return std::nullopt;
  }
  // The same for one stage, from 0: a list becomes its entry for it. Throws Error where a list ends
  // before.
  NormConfig at_stage(int stage) const;
  // Whether a normalizer of the grid takes tokens ahead of it (its option `prefix`).
  bool takes_prefix() const {
    const std::string* prefix = find<std::string>("prefix");
    return prefix && *prefix != "none";
  }
  bool operator==(const NormConfig&) const = default;
};

}  // namespace dtn
