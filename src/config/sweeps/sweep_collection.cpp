#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "config/layers.h"
#include "config/sweeps/norm_costs.h"
#include "config/sweeps/sweep_config.h"
#include "config/sweeps/sweep_figure.h"
#include "config/sweeps/sweep_file.h"

namespace dtn {
namespace config {
namespace {

namespace fs = std::filesystem;

const std::array<std::string, 4> kCollectionKeys = {"name", "title", "sweeps", "evaluate"};
const std::array<std::string, 2> kAbsentKeys = {"title", "not_yet"};
const std::array<std::string, 2> kCostKeys = {"title", "costs"};

Node parse_file(const std::string& path) {
  const Where origin{std::make_shared<const std::string>(path), 1, 1, 0};
  return parse_yaml(read_text(path, nullptr, "sweeps"), origin);
}

std::string line_at(const Node& map, const char* key) {
  const Node* node = map.value_at(key);
  if (node == nullptr) fail(map.where, "a table without a sweep has a ", key);
  return read_line(*node, key);
}

void add_suites(SweepConfig& sweep, std::span<const std::string> suites) {
  for (const std::string& suite : suites) {
    if (std::ranges::find(sweep.suites, suite) == sweep.suites.end()) sweep.suites.push_back(suite);
  }
}

}  // namespace
}  // namespace config

bool is_sweep_collection(const std::string& path) {
  const config::Node root = config::parse_file(path);
  return root.is_map() && root.find("sweeps") != nullptr;
}

SweepCollection load_sweep_collection(const std::string& path,
                                      std::span<const std::string> overrides,
                                      const ConfigSchemas& schemas) {
  using namespace config;
  const Node root = parse_file(path);
  check_keys(root, "a collection of sweeps", kCollectionKeys);
  const auto text = [&](const char* key, const std::string& otherwise) {
    const Node* node = root.value_at(key);
    return node ? read_line(*node, key) : otherwise;
  };
  SweepCollection collection;
  collection.name = text("name", fs::path(path).stem().string());
  collection.title = text("title", collection.name);
  std::vector<std::string> suites;
  if (const Node* node = root.find("evaluate")) suites = read_suites(*node);
  const Node& list = *root.find("sweeps");
  if (!list.is_list() || list.items.empty()) {
    fail(list.where, "sweeps must be a list of sweep files, not ", shown(list));
  }
  std::vector<std::string> names;
  for (const Node& item : list.items) {
    if (is_figure(item)) {
      SweepFigure figure = read_figure(item);
      const Where& where = item.find("figure")->where;
      if (std::ranges::find(names, figure.name) != names.end()) {
        fail(where, "figure: the name '", figure.name, "' is there twice");
      }
      names.push_back(figure.name);
      collection.tables.push_back({.title = read_title(item), .figure = std::move(figure)});
      continue;
    }
    if (const Node* costs = item.find("costs")) {
      check_keys(item, "a table of costs", kCostKeys);
      collection.tables.push_back(
          {.title = line_at(item, "title"),
           .costs = read_norm_costs(*costs, fs::path(path).parent_path(), overrides, schemas)});
      continue;
    }
    if (item.is_map()) {
      check_keys(item, "a table without a sweep", kAbsentKeys);
      collection.tables.push_back(
          {.title = line_at(item, "title"), .not_yet = line_at(item, "not_yet")});
      continue;
    }
    const std::string file = find_named_file(read_line(item, "sweeps"), "sweeps", item.where,
                                             fs::path(path).parent_path(), schemas);
    SweepConfig sweep = load_sweep(file, overrides, schemas);
    if (std::ranges::find(names, sweep.name) != names.end()) {
      fail(item.where, "two sweeps are named '", sweep.name, "', which names their folders, too");
    }
    names.push_back(sweep.name);
    add_suites(sweep, suites);
    const std::string title = sweep.title;
    collection.tables.push_back({.title = title, .sweep = std::move(sweep)});
  }
  // A figure may stand in front of the sweeps that train its runs.
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (!collection.tables[i].figure) continue;
    if (std::ranges::find(names, "figures") != names.end()) {
      fail(list.where, "'figures' is the folder of the figures; name the sweep otherwise");
    }
    find_runs(list.items[i], collection.tables, *collection.tables[i].figure);
  }
  return collection;
}

}  // namespace dtn
