#include "config/sweeps/sweep_figure.h"

#include <algorithm>
#include <array>

#include "config/codec.h"
#include "config/sweeps/sweep_file.h"

namespace dtn::config {
namespace {

const std::array<std::string, 9> kFigureKeys = {
    "title", "figure", "analyze", "illustrations", "before", "images", "seed", "token", "pictures"};
// With illustrations, the other keys have no meaning.
const std::array<std::string, 4> kIllustrationKeys = {"title", "figure", "illustrations",
                                                      "pictures"};

bool flag_at(const Node& entry, const char* key) {
  bool value = false;
  if (const Node* node = entry.value_at(key)) read_value({*node, key, ""}, {}, value);
  return value;
}

std::optional<std::int64_t> number_at(const Node& entry, const char* key, double low) {
  const Node* node = entry.value_at(key);
  if (node == nullptr) return std::nullopt;
  std::int64_t value = 0;
  read_value({*node, key, ""}, at_least(low), value);
  return value;
}

std::vector<std::string> names_at(const Node& entry, const char* key) {
  std::vector<std::string> names;
  const Node* node = entry.value_at(key);
  if (node == nullptr) return names;
  if (!node->is_list() || node->items.empty()) {
    fail(node->where, key, " must be a list of names, not ", shown(*node));
  }
  for (const Node& item : node->items) {
    names.push_back(read_line(item, key));
    if (std::ranges::count(names, names.back()) > 1) {
      fail(item.where, key, ": '", shown(names.back()), "' is there twice");
    }
  }
  return names;
}

// A run as the file names it: sweep/variant or sweep/variant:seed.
struct RunName {
  std::string sweep, variant;
  std::optional<std::string> seed;
};

RunName split_run_name(const std::string& text, const Where& where) {
  const std::size_t slash = text.find('/'), colon = text.find(':');
  if (slash == std::string::npos || (colon != std::string::npos && colon < slash)) {
    fail(where, "analyze: '", shown(text),
         "' is no run of a sweep; a run is written <sweep>/<variant> or <sweep>/<variant>:<seed>");
  }
  RunName name{text.substr(0, slash), text.substr(slash + 1), {}};
  if (colon != std::string::npos) {
    name.variant = text.substr(slash + 1, colon - slash - 1);
    name.seed = text.substr(colon + 1);
  }
  return name;
}

const SweepConfig& sweep_named(const std::string& name, const Where& where,
                               std::span<const CollectedSweep> tables) {
  std::vector<std::string> names;
  for (const CollectedSweep& table : tables) {
    if (!table.sweep) continue;
    if (table.sweep->name == name) return *table.sweep;
    names.push_back(table.sweep->name);
  }
  fail(where, "analyze: the collection has no sweep '", shown(name), "'",
       did_you_mean(name, names, "."), " Sweeps: ", join(names));
}

const SweepVariant& variant_named(const std::string& name, const Where& where,
                                  const SweepConfig& sweep) {
  std::vector<std::string> names;
  for (const SweepVariant& variant : sweep.variants) {
    if (variant.name == name) return variant;
    names.push_back(variant.name);
  }
  fail(where, "analyze: the sweep ", sweep.name, " has no variant '", shown(name), "'",
       did_you_mean(name, names, "."), " Variants: ", join(names));
}

// Returns the seed that a run names, or else the first one of its variant.
std::uint64_t seed_named(const std::optional<std::string>& text, const Where& where,
                         const SweepVariant& variant) {
  if (!text) return variant.seeds.front();
  for (const std::uint64_t seed : variant.seeds) {
    if (std::to_string(seed) == *text) return seed;
  }
  fail(where, "analyze: ", variant.name, " has no seed '", shown(*text), "'; its seeds are ",
       join(variant.seeds));
}

}  // namespace

bool is_figure(const Node& entry) {
  return entry.is_map() &&
         (entry.find("figure") || entry.find("analyze") || entry.find("illustrations"));
}

std::string read_title(const Node& entry) {
  const Node* title = entry.value_at("title");
  if (title == nullptr) fail(entry.where, "a figure has a title");
  return read_line(*title, "title");
}

SweepFigure read_figure(const Node& entry) {
  check_keys(entry, "a figure", kFigureKeys);
  const Node* name = entry.value_at("figure");
  if (name == nullptr) fail(entry.where, "a figure has a name; add for example figure: figure2");
  SweepFigure figure;
  figure.name = read_name(*name, "figure");
  figure.before = flag_at(entry, "before");
  figure.images = number_at(entry, "images", 1);
  figure.seed = number_at(entry, "seed", 0);
  figure.token = number_at(entry, "token", 0);
  figure.pictures = names_at(entry, "pictures");
  const bool runs = entry.value_at("analyze") != nullptr;
  if (runs == flag_at(entry, "illustrations")) {
    fail(entry.where, "a figure has either analyze: with a list of runs, or illustrations: true");
  }
  if (!runs) check_keys(entry, "a figure of illustrations", kIllustrationKeys);
  return figure;
}

void find_runs(const Node& entry, std::span<const CollectedSweep> tables, SweepFigure& figure) {
  const Node* list = entry.value_at("analyze");
  if (list == nullptr) return;
  const std::vector<std::string> names = names_at(entry, "analyze");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Where& where = list->items[i].where;
    const RunName name = split_run_name(names[i], where);
    const SweepConfig& sweep = sweep_named(name.sweep, where, tables);
    const SweepVariant& variant = variant_named(name.variant, where, sweep);
    figure.runs.push_back(
        {sweep.name, variant.name, variant.label, seed_named(name.seed, where, variant)});
  }
}

}  // namespace dtn::config
