#include "optim/rates.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/format.h"
#include "dtn/core/check.h"
#include "nn/name_pattern.h"

namespace dtn {
namespace {

// Removes the name of a backbone that a task has put before its parameters.
std::string_view without_backbone(std::string_view name) {
  constexpr std::string_view kBackbone = "backbone.";
  return name.starts_with(kBackbone) ? name.substr(kBackbone.size()) : name;
}

// Returns the i of "blocks.<i>.".
std::optional<int> block_of(std::string_view name) {
  name = without_backbone(name);
  constexpr std::string_view kPrefix = "blocks.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int block = 0;
  const char* begin = name.data() + kPrefix.size();
  const auto [stop, error] = std::from_chars(begin, name.data() + name.size(), block);
  if (error != std::errc()) return std::nullopt;
  return block;
}

int count_blocks(const ParameterStore& store) {
  int blocks = 0;
  for (const Parameter& p : store.parameters()) {
    blocks = std::max(blocks, block_of(p.name).value_or(-1) + 1);
  }
  if (blocks == 0) {
    throw ConfigError(
        "optim.layer_decay: the model has no parameters blocks.<number>.*, so its layers are "
        "unknown; use optim.lr_multiples");
  }
  return blocks;
}

void decay_over_layers(double decay, const ParameterStore& store, std::vector<double>& factors) {
  const int blocks = count_blocks(store);
  std::size_t i = 0;
  for (const Parameter& p : store.parameters()) {
    factors[i++] *= std::pow(decay, blocks + 1 - layer_of(p.name, blocks));
  }
}

// Returns the factor of the last entry that matches, or 1.
double multiple_of(const std::vector<RateMultiple>& multiples, const std::string& name) {
  double factor = 1;
  for (const RateMultiple& m : multiples) {
    if (matches_name(m.pattern, name)) factor = m.factor;
  }
  return factor;
}

}  // namespace

int layer_of(std::string_view parameter, int blocks) {
  if (const auto block = block_of(parameter)) return *block + 1;
  parameter = without_backbone(parameter);
  const std::string_view module = parameter.substr(0, parameter.find('.'));
  if (module == "norm") return blocks;
  const bool makes_tokens = module == "patch_embed" || module == "pos_embed" ||
                            module == "norm_pre" || module == "condition" ||
                            module.ends_with("_token");
  return makes_tokens ? 0 : blocks + 1;
}

std::vector<double> rate_factors(const OptimConfig& config, const ParameterStore& store) {
  std::vector<double> factors(store.parameters().size(), 1.0);
  if (factors.empty()) return factors;
  if (config.layer_decay) decay_over_layers(*config.layer_decay, store, factors);
  for (const RateMultiple& m : config.lr_multiples) {
    check_pattern("optim.lr_multiples", m.pattern, store);
  }
  // A model without lambdas may have the key, so that runs with and without DTN share a config.
  std::vector<RateMultiple> multiples{{"*_norm_weight", config.lambda_lr_scale}};
  multiples.insert(multiples.end(), config.lr_multiples.begin(), config.lr_multiples.end());
  std::size_t i = 0;
  for (const Parameter& p : store.parameters()) factors[i++] *= multiple_of(multiples, p.name);
  return factors;
}

std::vector<ParameterRange> parameter_ranges(const OptimConfig& config,
                                             const ParameterStore& store) {
  const std::vector<double> factors = rate_factors(config, store);
  std::vector<ParameterRange> ranges;
  // In the flat buffers, parameters with decay lie before parameters without it.
  for (const Decay decay : {Decay::kYes, Decay::kNo}) {
    const bool decays = decay == Decay::kYes;
    bool open = false;  // true: the last range continues
    std::size_t i = 0;
    for (const Parameter& p : store.parameters()) {
      const double factor = factors[i++];
      if (p.decay != decay) continue;
      if (open && (p.frozen || ranges.back().lr_factor != factor || ranges.back().late != p.late)) {
        ranges.back().end = p.offset;
        open = false;
      }
      if (p.frozen) continue;
      if (!open) {
        ranges.push_back(
            {p.offset, 0, decays || config.decay == DecayScope::kAll, factor, p.late, {}});
      }
      open = true;
      const std::int64_t begin = p.offset - ranges.back().begin;
      ranges.back().tensors.emplace_back(begin, begin + p.shape.numel());
    }
    if (open) ranges.back().end = decays ? store.decay_end() : store.flat_size();
  }
  return ranges;
}

namespace {

// Returns the beginning of a name: "blocks.3", or the module.
std::string unit_of(const std::string& name) {
  if (const auto block = block_of(name)) return cat("blocks.", *block);
  const std::string_view own = without_backbone(name);
  return std::string(own.substr(0, own.find('.')));
}

// Parameters with the same factor: whole units, and single tensors of other units.
struct RateGroup {
  std::vector<std::string> units;
  std::int64_t tensors = 0;
  std::string first;  // name of the first of the tensors
};

// Joins the names of units and shortens consecutive blocks: "norm, blocks.0-5, blocks.8".
std::string with_ranges(const std::vector<std::string>& units) {
  std::string text;
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < units.size() && block_of(units[last] + ".") &&
           units[last + 1] == cat("blocks.", *block_of(units[last] + ".") + 1)) {
      ++last;
    }
    text += cat(text.empty() ? "" : ", ", units[i]);
    if (last > i) text += cat("-", *block_of(units[last] + "."));
    i = last;
  }
  return text;
}

}  // namespace

std::string describe_rates(const OptimConfig& config, const ParameterStore& store) {
  const std::vector<double> factors = rate_factors(config, store);
  std::map<std::string, std::set<double>> factors_of;
  std::size_t i = 0;
  for (const Parameter& p : store.parameters()) {
    const double factor = factors[i++];
    if (!p.frozen) factors_of[unit_of(p.name)].insert(factor);
  }
  std::map<double, RateGroup> groups;
  i = 0;
  for (const Parameter& p : store.parameters()) {
    const double factor = factors[i++];
    if (p.frozen) continue;
    RateGroup& group = groups[factor];
    const std::string unit = unit_of(p.name);
    if (factors_of[unit].size() > 1) {
      if (group.tensors++ == 0) group.first = p.name;
    } else if (std::ranges::count(group.units, unit) == 0) {
      group.units.push_back(unit);
    }
  }
  if (groups.empty() || (groups.size() == 1 && groups.contains(1))) return "";
  std::string text;
  for (const auto& [factor, group] : groups) {
    text += format("%sx %.3g: ", text.empty() ? "" : "; ", factor) + with_ranges(group.units);
    if (group.tensors == 0) continue;
    text += cat(group.units.empty() ? "" : ", ", group.tensors,
                group.tensors == 1 ? " tensor like " : " tensors like ", group.first);
  }
  return text;
}

}  // namespace dtn
