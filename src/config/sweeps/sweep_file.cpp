#include "config/sweeps/sweep_file.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "config/codec.h"
#include "config/keys.h"
#include "config/layers.h"
#include "config/sweeps/sweep_columns.h"

namespace dtn::config {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxVariants = 1000;
constexpr std::size_t kMaxSeeds = 1000;

const std::array<std::string, 17> kSweepKeys = {
    "name",     "title",   "base",     "base_sweep", "set",      "seeds",
    "metric",   "weights", "only",     "milestones", "baseline", "variants",
    "evaluate", "columns", "features", "samples",    "notes"};
const std::array<std::string, 8> kVariantKeys = {"name", "label", "set",          "seeds",
                                                 "base", "paper", "paper_suites", "paper_features"};

bool is_config_key(const std::string& key) {
  const std::string first = key.substr(0, key.find('.'));
  return std::any_of(keys().begin(), keys().end(), [&](const Key& k) {
    return k.path == first || k.path.starts_with(first + ".");
  });
}

// Calls read(node) if the key exists; null resets the value.
template <class T, class Read>
void take(const Node& map, const char* key, std::optional<T>& value, Read read) {
  const Node* node = map.find(key);
  if (node == nullptr) return;
  value.reset();
  if (!node->is_null()) value = read(*node);
}

std::vector<std::uint64_t> read_seeds(const Node& node) {
  if (!node.is_list() || node.items.empty() || node.items.size() > kMaxSeeds) {
    fail(node.where, "seeds must be a list of 1 to ", kMaxSeeds, " whole numbers like [0, 1, 2]",
         node.is_list() ? std::string() : cat(", not ", shown(node)));
  }
  std::vector<std::uint64_t> seeds;
  for (const Node& item : node.items) {
    std::uint64_t seed = 0;
    read_value({item, "seeds", ""}, {}, seed);
    if (std::find(seeds.begin(), seeds.end(), seed) != seeds.end()) {
      fail(item.where, "seeds: ", seed, " is there twice");
    }
    seeds.push_back(seed);
  }
  return seeds;
}

std::vector<Written<double>> read_milestones(const Node& node) {
  std::vector<double> values;
  if (!node.is_null()) read_value({node, "milestones", "values of a figure"}, {}, values);
  std::vector<Written<double>> milestones;
  for (std::size_t i = 0; i < values.size(); ++i) {
    milestones.push_back({values[i], node.is_list() ? node.items[i].where : node.where});
  }
  return milestones;
}

void expand_shorthand(const std::string& key, Node& node) {
  for (const Shorthand& s : kShorthands) {
    if (leaf_of(s.section) == key) expand_shorthand(node, s.key);
  }
}

void insert(Node& map, const std::string& path, const Where& where, Node value);

// Rewrites "a.b: value" as "a: {b: value}".
Node expand_paths(Node map) {
  if (!map.is_map()) return map;
  Node out = make_map(map.where);
  constexpr std::ptrdiff_t kMaxDots = 7;
  for (Member& m : map.members) {
    if (std::count(m.key.begin(), m.key.end(), '.') > kMaxDots) {
      fail(m.where, "not a key of a config: '", shown(m.key), "'");
    }
    insert(out, m.key, m.where, expand_paths(std::move(m.value)));
  }
  return out;
}

void insert(Node& map, const std::string& path, const Where& where, Node value) {
  const std::size_t dot = path.find('.');
  const std::string key = path.substr(0, dot);
  if (dot != std::string::npos) {
    Node inner = make_map(where);
    insert(inner, path.substr(dot + 1), where, std::move(value));
    value = std::move(inner);
  }
  const auto old = std::find_if(map.members.begin(), map.members.end(),
                                [&](const Member& m) { return m.key == key; });
  if (old == map.members.end()) {
    map.members.push_back({key, where, std::move(value)});
    return;
  }
  if (old->value.is_map() != value.is_map()) {  // for example {model.norm: dtn, model.norm.pool: 2}
    expand_shorthand(key, old->value);
    expand_shorthand(key, value);
  }
  if (!old->value.is_map() || !value.is_map()) {
    fail(where, "'", shown(key), "' is set twice, first in line ", old->where.line);
  }
  for (Member& m : value.members) insert(old->value, m.key, m.where, std::move(m.value));
}

}  // namespace

void check_keys(const Node& map, const char* what, std::span<const std::string> known) {
  if (!map.is_map()) {
    fail(map.where, what, " is a map of ", join(known), ", not ", shown(map));
  }
  for (const Member& m : map.members) {
    if (std::find(known.begin(), known.end(), m.key) != known.end()) continue;
    fail(m.where, "unknown key '", shown(m.key), "'",
         is_config_key(m.key) ? std::string("; keys of a config go below set:")
                              : did_you_mean(m.key, known, "."),
         " Keys of ", what, ": ", join(known));
  }
}

std::string read_line(const Node& node, const std::string& path) {
  std::string text;
  read_value({node, path, ""}, {}, text);
  check_plain_value(text, node.where);
  if (text.empty()) fail(node.where, path, " is empty");
  return text;
}

// A name is also a folder name and part of a --only list.
std::string read_name(const Node& node, const std::string& path) {
  constexpr std::size_t kMax = 80;
  std::string name = read_line(node, path);
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const bool allowed = std::all_of(name.begin(), name.end(), [&](char c) {
    return is_letter(c) || std::string_view("_-+.").find(c) != std::string_view::npos;
  });
  if (!allowed || !is_letter(name[0]) || name.size() > kMax) {
    fail(node.where, path, " '", shown(name), "' cannot name a folder: use letters, digits and ",
         "_ - + . (at most ", kMax, ", a letter or digit first)");
  }
  if (name.find(".tmp-") != std::string::npos) {
    fail(node.where, path, " '", name, "' is taken: half-written files are named like that");
  }
  for (const char* file : {"table.", "curves.", "values.", "sweep.lock"}) {
    if (name.starts_with(file)) {
      fail(node.where, path, " '", name, "' is taken: files of that name stand in the same folder");
    }
  }
  return name;
}

std::vector<std::string> read_suites(const Node& node) {
  if (node.is_null()) return {};
  if (!node.is_list()) {
    fail(node.where, "evaluate must be a list of ", join(kSweepSuites), ", not ", shown(node));
  }
  std::vector<std::string> suites;
  for (const Node& item : node.items) {
    suites.push_back(kSweepSuites[read_choice({item, "evaluate", ""}, kSweepSuites)]);
  }
  return suites;
}

namespace {

class Reader {
 public:
  explicit Reader(const ConfigSchemas& schemas) : schemas_(schemas) {}

  // Reads a file, with its values over the values that it inherits.
  void read(const fs::path& path, const Where* asked_by) {
    enter(path, asked_by);
    const Where origin{std::make_shared<const std::string>(path.string()), 1, 1, 0};
    Node root = parse_yaml(read_text(path, asked_by, "base_sweep"), origin);
    check_keys(root, "a sweep", kSweepKeys);
    const fs::path folder = path.parent_path();
    if (const Node* parent = root.value_at("base_sweep")) {
      read(find_file(*parent, "base_sweep", folder), &parent->where);
    }
    sweep_.where = root.where;
    sweep_.name.reset();  // name and title are not inherited
    sweep_.title.reset();
    take(root, "name", sweep_.name, [](const Node& n) { return read_name(n, "name"); });
    take(root, "title", sweep_.title, [](const Node& n) { return read_line(n, "title"); });
    take(root, "base", sweep_.base, [&](const Node& n) { return read_base(n, folder); });
    take(root, "seeds", sweep_.seeds, read_seeds);
    const auto line = [](const char* key) {
      return [key](const Node& n) { return Written<std::string>{read_line(n, key), n.where}; };
    };
    take(root, "baseline", sweep_.baseline, line("baseline"));
    take(root, "metric", sweep_.metric, line("metric"));
    if (const Node* node = root.find("weights")) sweep_.ema = read_weights(*node);
    if (const Node* node = root.find("milestones")) sweep_.milestones = read_milestones(*node);
    if (const Node* node = root.find("evaluate")) sweep_.suites = read_suites(*node);
    if (const Node* node = root.find("columns")) sweep_.columns = read_columns(*node);
    if (const Node* node = root.find("features")) sweep_.features = read_features(*node);
    if (const Node* node = root.find("samples")) {
      sweep_.samples = read_samples(*node, folder, schemas_);
    }
    if (const Node* node = root.find("notes")) sweep_.notes = read_notes(*node);
    add_set(root, sweep_.sets);
    if (const Node* node = root.find("variants")) read_variants(*node, folder);
    if (const Node* node = root.find("only")) keep_only(*node);
    open_.pop_back();
  }

  SweepFile take_sweep() { return std::move(sweep_); }

 private:
  void enter(const fs::path& path, const Where* asked_by) {
    std::error_code error;
    fs::path real = fs::weakly_canonical(path, error);
    if (error) real = path.lexically_normal();
    if (asked_by != nullptr && std::find(open_.begin(), open_.end(), real) != open_.end()) {
      fail(*asked_by, "base_sweep: goes round in a circle to ", real.filename().string());
    }
    if (asked_by != nullptr && open_.size() >= kMaxBaseDepth) {
      fail(*asked_by, "base_sweep: more than ", kMaxBaseDepth, " files deep");
    }
    open_.push_back(real);
  }

  std::string find_file(const Node& node, const std::string& key, const fs::path& folder) const {
    return find_named_file(read_line(node, key), key, node.where, folder, schemas_);
  }

  Written<std::string> read_base(const Node& node, const fs::path& folder) const {
    return {find_file(node, "base", folder), node.where};
  }

  static std::optional<Where> read_weights(const Node& node) {
    static const std::array<std::string, 2> names = {"raw", "ema"};
    if (node.is_null() || read_choice({node, "weights", ""}, names) == 0) return std::nullopt;
    return node.where;
  }

  void add_set(const Node& map, std::vector<Node>& sets) const {
    const Node* node = map.find("set");
    if (node == nullptr || node->is_null()) return;
    if (!node->is_map()) {
      fail(node->where, "set must be a map of config keys and values, not ", shown(*node));
    }
    Node set = expand_paths(*node);
    for (const Member& m : set.members) {
      if (m.key == "seed") fail(m.where, "seed: list the seeds of the runs in seeds:");
      if (m.key == "name") fail(m.where, "name: a run is named after its sweep and variant");
    }
    check_layer(set, schemas_);
    sets.push_back(std::move(set));
  }

  void read_variants(const Node& list, const fs::path& folder) {
    if (list.is_null()) return;
    if (!list.is_list()) fail(list.where, "variants must be a list, not ", shown(list));
    std::vector<std::pair<std::string, Where>> seen;
    for (const Node& node : list.items) {
      check_keys(node, "a variant", kVariantKeys);
      const Node* name = node.value_at("name");
      if (name == nullptr) fail(node.where, "this variant has no name");
      const std::string text = read_name(*name, "name");
      for (const auto& [other, where] : seen) {
        if (other == text) {
          fail(name->where, "two variants are named '", text, "', the first in line ", where.line);
        }
      }
      seen.emplace_back(text, name->where);
      read_variant(node, find_or_add(text), folder);
    }
    if (sweep_.variants.size() > kMaxVariants) {
      fail(list.where, "more than ", kMaxVariants, " variants");
    }
  }

  // An inherited variant of this name keeps the values that the file does not set.
  VariantFile& find_or_add(const std::string& name) {
    for (VariantFile& v : sweep_.variants) {
      if (v.name == name) return v;
    }
    sweep_.variants.emplace_back().name = name;
    return sweep_.variants.back();
  }

  void read_variant(const Node& node, VariantFile& variant, const fs::path& folder) const {
    variant.where = node.where;
    take(node, "label", variant.label, [](const Node& n) { return read_line(n, "label"); });
    take(node, "seeds", variant.seeds, read_seeds);
    take(node, "base", variant.base, [&](const Node& n) { return read_base(n, folder); });
    take(node, "paper", variant.paper, read_paper);
    if (const Node* suites = node.find("paper_suites")) {
      variant.paper_suites = read_paper_suites(*suites);
    }
    if (const Node* features = node.find("paper_features")) {
      variant.paper_features = read_paper_features(*features);
    }
    add_set(node, variant.sets);
  }

  void keep_only(const Node& node) {
    if (node.is_null()) return;
    if (!node.is_list() || node.items.empty()) {
      fail(node.where, "only must be a list of names of variants, not ", shown(node));
    }
    std::vector<std::string> kept;
    for (const Node& item : node.items) {
      kept.push_back(read_line(item, "only"));
      find_variant(sweep_, kept.back(), item.where, "only");
    }
    std::erase_if(sweep_.variants, [&](const VariantFile& v) {
      return std::find(kept.begin(), kept.end(), v.name) == kept.end();
    });
  }

  const ConfigSchemas& schemas_;
  std::vector<fs::path> open_;
  SweepFile sweep_;
};

}  // namespace

std::size_t find_variant(const SweepFile& sweep, const std::string& name, const Where& where,
                         const char* key) {
  std::vector<std::string> names;
  for (const VariantFile& v : sweep.variants) {
    if (v.name == name) return names.size();
    names.push_back(v.name);
  }
  fail(where, key, ": there is no variant '", shown(name), "'", did_you_mean(name, names, "."),
       " Variants: ", join(names));
}

SweepFile read_sweep_file(const std::string& path, const ConfigSchemas& schemas) {
  Reader reader(schemas);
  reader.read(path, nullptr);
  return reader.take_sweep();
}

}  // namespace dtn::config
