#include "apps/report/config_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "config/document.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

// Keys that choose which other keys are read, or what their defaults are.
constexpr std::array kChoices = {"task",
                                 "model.preset",
                                 "model.detector",
                                 "model.norm.type",
                                 "data.dataset",
                                 "optim.name",
                                 "schedule.name",
                                 "schedule.steps",
                                 "schedule.milestones",
                                 "schedule.epochs",
                                 "schedule.decay_epochs"};
// Keys without which some choices are no valid config, such as pairs of pictures and conditions.
constexpr std::array kNeeded = {
    "data.corruptions",     "model.image_size",        "model.channels",
    "model.out_channels",   "model.decoder_norm.type", "model.condition.from",
    "model.condition.size", "model.condition.styles",  "data.drawn"};

std::string text_of_value(const config::Node& node) {
  if (node.is_null()) return "null";
  if (!node.is_list()) return node.text;
  return cat("[", config::join(node.items, ", ", text_of_value), "]");
}

void add_values(const std::string& path, const config::Node& node, ConfigValues& out) {
  if (!node.is_map() || node.members.empty()) {
    out.emplace_back(path, node.is_map() ? "{}" : text_of_value(node));
    return;
  }
  for (const config::Member& member : node.members) {
    add_values(path.empty() ? member.key : cat(path, ".", member.key), member.value, out);
  }
}

// A key that an older version did not write counts as null.
bool is_unset(const std::string& value) { return value == "-" || value == "null"; }

}  // namespace

ConfigValues config_values(const std::string& yaml) {
  ConfigValues values;
  try {
    const auto source = std::make_shared<const std::string>("config.yaml");
    const config::Node root = config::parse_yaml(yaml, {source, 1, 1});
    if (root.is_map()) add_values("", root, values);
  } catch (const ConfigError&) {  // a run without a config still has curves
  }
  return values;
}

std::string value_of(const ConfigValues& config, const std::string& key) {
  const auto found = std::ranges::find(config, key, &ConfigValues::value_type::first);
  return found == config.end() || found->second == "null" ? "" : found->second;
}

std::optional<ConfigValues> defaults_for(const ConfigValues& run, const ConfigSchemas& schemas) {
  std::vector<std::string> chosen;
  const auto choose = [&](const char* key) {
    const std::string value = value_of(run, key);
    if (!value.empty()) chosen.push_back(cat(key, "=", value));
  };
  const auto with_chosen = [&]() -> std::optional<ConfigValues> {
    try {
      return config_values(to_yaml(parse_experiment("data: {resample: pillow13}\n", "defaults",
                                                    chosen, schemas, ConfigOrigin::kStored)));
    } catch (const Error&) {  // the choices need further keys
      return std::nullopt;
    }
  };
  for (const char* key : kChoices) choose(key);
  std::optional<ConfigValues> defaults = with_chosen();
  for (auto key = kNeeded.begin(); !defaults && key != kNeeded.end(); ++key) {
    choose(*key);
    defaults = with_chosen();
  }
  return defaults;
}

plot::Table differing_values(std::span<const std::string> names,
                             std::span<const ConfigValues> configs) {
  plot::Table table{{"key"}, {}};
  table.columns.insert(table.columns.end(), names.begin(), names.end());
  std::vector<std::string> keys;
  std::vector<std::map<std::string, std::string>> values;
  for (const ConfigValues& config : configs) {
    values.emplace_back(config.begin(), config.end());
    for (const auto& [key, value] : config) {
      if (key != "name" && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    std::vector<std::string> row = {key};
    for (const auto& config : values) {
      const auto found = config.find(key);
      row.push_back(found == config.end() ? "-" : found->second);
    }
    const bool equal = std::all_of(row.begin() + 1, row.end(), [&](const std::string& value) {
      return value == row[1] || (is_unset(value) && is_unset(row[1]));
    });
    if (!equal) table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace dtn
