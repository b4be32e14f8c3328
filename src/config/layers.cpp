#include "config/layers.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "config/choices.h"
#include "config/hub.h"
#include "config/key_docs.h"
#include "config/keys.h"
#include "config/presets.h"

namespace dtn::config {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr int kMaxFiles = 64;  // bounds the reads if each file has two bases: otherwise 2^16

// Returns every valid path, including sections.
std::set<std::string> known_paths(const ConfigSchemas& schemas) {
  std::set<std::string> known;
  const auto add = [&](std::string path) {
    for (; !path.empty(); path = section_of(path)) known.insert(path);
  };
  for (const Key& key : keys()) add(key.path);
  for (const NormSchema& norm : schemas.norms) {
    for (const OptionSchema& option : norm.options) {
      for (const char* section : kNormSections) add(cat(section, ".", option.key));
    }
  }
  return known;
}

bool is_section(const std::set<std::string>& known, const std::string& path) {
  const auto next = known.upper_bound(path + ".");
  return next != known.end() && next->starts_with(path + ".");
}

std::vector<std::string> children_of(const std::set<std::string>& known,
                                     const std::string& section) {
  std::vector<std::string> out;
  for (const std::string& path : known) {
    if (section_of(path) == section) out.push_back(path);
  }
  return out;
}

[[noreturn]] void fail_unknown(const Where& where, const std::string& path,
                               const std::set<std::string>& known) {
  const std::string section = section_of(path);
  const std::vector<std::string> siblings = children_of(known, section);
  const std::vector<std::string> all(known.begin(), known.end());
  std::vector<std::string> leaves;
  for (const std::string& s : siblings) leaves.push_back(leaf_of(s));
  // Try a synonym or the same key in another section, then the nearest key here, then anywhere.
  std::string meant;
  if (const auto paths = paths_meant_by(leaf_of(path), known); !paths.empty()) {
    meant = paths.back();
  } else if (const std::string leaf = guess(leaf_of(path), leaves); !leaf.empty()) {
    meant = section.empty() ? leaf : cat(section, ".", leaf);
  } else {
    meant = guess(path, all);
  }
  fail(where, "unknown key '", shown(path), "'",
       meant.empty() ? std::string(".") : cat("; did you mean '", meant, "'?"), " Keys ",
       section.empty() ? std::string("at the top") : cat("of ", section), ": ", join(leaves));
}

void check_known(const Node& map, const std::string& prefix, const std::set<std::string>& known) {
  for (const Member& m : map.members) {
    // A key with a dot could be mistaken for a path.
    const std::string path = prefix.empty() ? m.key : cat(prefix, ".", m.key);
    if (m.key.find('.') != std::string::npos || !known.contains(path)) {
      fail_unknown(m.where, path, known);
    }
    if (!is_section(known, path)) continue;
    if (m.value.is_map()) {
      check_known(m.value, path, known);
    } else if (!m.value.is_null()) {
      std::vector<std::string> leaves;
      for (const std::string& s : children_of(known, path)) leaves.push_back(leaf_of(s));
      fail(m.value.where, path, " must be a map of ", join(leaves), ", not ", shown(m.value));
    }
  }
}

// Throws ConfigError if the text of a config is that of a sweep.
void check_is_run(const Node& root) {
  for (const char* key : {"variants", "sweeps", "base_sweep"}) {
    const auto member = std::ranges::find(root.members, key, &Member::key);
    if (member == root.members.end()) continue;
    fail(member->where, "`", key,
         "` is a key of sweeps; run this file with dtn-sweep (a sweep inherits from another by "
         "base_sweep, not by base)");
  }
}

// Converts one layer into the form that is merged, and checks it as far as possible alone.
void prepare(Node& root, const ConfigSchemas& schemas) {
  if (root.is_null()) root = make_map(root.where);
  if (!root.is_map()) fail(root.where, "a config is a map of keys and values, not ", shown(root));
  for (const Shorthand& s : kShorthands) {
    if (Node* node = root.at(s.section)) expand_shorthand(*node, s.key);
  }
  check_known(root, "", known_paths(schemas));
  const Node* steps = root.value_at("schedule.steps");
  const Node* epochs = root.value_at("schedule.epochs");
  if (steps != nullptr && epochs != nullptr) {
    const Node* second = steps->where.line > epochs->where.line ? steps : epochs;
    fail(second->where, "schedule.steps and schedule.epochs are both set; keep one of them");
  }
}

// Drops keys of `below` that depend on values which `above` replaces.
void drop_superseded(Node& below, const Node& above, const ConfigSchemas& schemas) {
  drop_superseded_choices(below, above, schemas);
  // A run has only one key of each pair.
  const auto replace = [&](const char* set, const char* old) {
    if (above.value_at(set)) below.erase(old);
  };
  replace("schedule.steps", "schedule.epochs");
  replace("schedule.epochs", "schedule.steps");
  replace("schedule.milestones", "schedule.decay_epochs");
  replace("schedule.decay_epochs", "schedule.milestones");
  // If `above` makes the batch no larger than the micro-batch of `below`, drop the micro-batch.
  std::int64_t batch = 0, micro = 0;
  if (parse_integer(text_of(above, "train.batch_size"), batch) &&
      parse_integer(text_of(below, "train.micro_batch"), micro) && micro >= batch) {
    below.erase("train.micro_batch");
  }
}

void put_over(Node& below, Node above, const ConfigSchemas& schemas) {
  drop_superseded(below, above, schemas);
  // A missing key is reported at the root of the top layer.
  const Where where = above.where;
  merge(below, std::move(above));
  below.where = where;
}

void set_rank(Node& node, int rank) {
  node.where.layer = rank;
  for (Node& item : node.items) set_rank(item, rank);
  for (Member& m : node.members) {
    m.where.layer = rank;
    set_rank(m.value, rank);
  }
}

class FileLoader {
 public:
  explicit FileLoader(const ConfigSchemas& schemas) : schemas_(schemas) {}

  Node load(const std::filesystem::path& path, const Where* asked_by) {
    enter(path, asked_by);
    Node root = read(path, asked_by);
    check_is_run(root);
    Node bases;
    if (root.is_map()) {
      if (const Node* base = root.find("base")) bases = load_bases(*base, path.parent_path());
      root.erase("base");
    }
    // Ranks grow from the deepest base up, so they are assigned after the bases are read.
    set_rank(root, next_rank_++);
    prepare(root, schemas_);
    if (is_of_run(path)) drop_unread(root, schemas_);
    open_.pop_back();
    if (!bases.is_map()) return root;
    put_over(bases, std::move(root), schemas_);
    return bases;
  }

 private:
  // Reads a file, or generates the config of a public model.
  Node read(const std::filesystem::path& path, const Where* asked_by) const {
    std::error_code error;
    const Where origin{std::make_shared<const std::string>(path.string()), 1, 1, 0};
    const auto model = find_public_model(path.string(), schemas_);
    if (model && !std::filesystem::exists(path, error)) {
      return parse_yaml(config_text(*model), origin);
    }
    if (is_hub_config(path)) return read_hub_config(path, schemas_);
    return parse_yaml(read_text(path, asked_by, "base"), origin);
  }

  void enter(const std::filesystem::path& path, const Where* asked_by) {
    std::error_code error;
    std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
    if (error) real = path.lexically_normal();
    const auto again = std::find(open_.begin(), open_.end(), real);
    if (again != open_.end() && asked_by != nullptr) {
      std::string way;
      for (auto it = again; it != open_.end(); ++it) way += cat(it->filename().string(), " -> ");
      fail(*asked_by, "base: goes round in a circle: ", way, real.filename().string());
    }
    if (asked_by != nullptr && open_.size() >= kMaxBaseDepth) {
      fail(*asked_by, "base: more than ", kMaxBaseDepth, " files deep");
    }
    if (asked_by != nullptr && ++files_ > kMaxFiles) {
      fail(*asked_by, "base: more than ", kMaxFiles, " files in all");
    }
    open_.push_back(real);
  }

  Node load_bases(const Node& base, const std::filesystem::path& folder) {
    std::vector<const Node*> names;
    if (base.is_scalar()) names.push_back(&base);
    for (const Node& item : base.items) names.push_back(&item);
    Node merged;
    for (const Node* name : names) {
      if (!name->is_scalar() || name->text.empty()) {
        fail(name->where, "base must be a file name or a list of them, not ", shown(*name));
      }
      Node one =
          load(find_named_file(name->text, "base", name->where, folder, schemas_), &name->where);
      if (merged.is_map()) {
        put_over(merged, std::move(one), schemas_);
      } else {
        merged = std::move(one);
      }
    }
    if (names.empty() && !base.is_null()) {
      fail(base.where, "base must be a file name or a list of them, not ", shown(base));
    }
    return merged;
  }

  const ConfigSchemas& schemas_;
  std::vector<std::filesystem::path> open_;
  int next_rank_ = 0;
  int files_ = 0;
};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// Parses the value of an override. Plain text is taken literally, so that a path may contain any
// character. Quoted text, a list or a map is parsed as YAML.
Node parse_override_value(std::string value, const Where& where) {
  value = trimmed(value);
  if (!value.empty() && std::string_view("[{\"'").find(value[0]) != std::string_view::npos) {
    return parse_yaml(value, where);
  }
  check_plain_value(value, where);
  Node node;
  node.where = where;
  if (value.empty() || value == "~" || value == "null") return node;
  node.kind = Node::Kind::kScalar;
  node.text = std::move(value);
  return node;
}

Node parse_override(const std::string& text) {
  Where where;
  where.source = std::make_shared<const std::string>("--set " + shown(text));
  where.layer = kOverrideLayer;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail(where, "an override is written key.path=value, like optim.lr=1e-3");
  }
  std::string path = trimmed(text.substr(0, equals));
  if (path == "base") fail(where, "base cannot be overridden; name it in a file");
  if (path.empty() || path[0] == '.') fail(where, "not a key path: '", shown(path), "'");
  constexpr int kMaxParts = 8;
  Node node = parse_override_value(text.substr(equals + 1), where);
  for (int parts = 0; !path.empty(); ++parts) {
    const std::string leaf = leaf_of(path);
    if (leaf.empty() || parts == kMaxParts) fail(where, "not a key path: '", shown(path), "'");
    Node map = make_map(where);
    map.members.push_back({leaf, where, std::move(node)});
    node = std::move(map);
    path = section_of(path);
  }
  return node;
}

}  // namespace

std::string read_text(const std::filesystem::path& path, const Where* asked_by, const char* key) {
  const auto refuse = [&](const char* why) {
    if (asked_by != nullptr) fail(*asked_by, key, ": ", why, " '", path.string(), "'");
    throw ConfigError(cat(path.string(), ": ", why, " the config"));
  };
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse("a folder, not a file, is at");
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse("cannot open");
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) refuse("cannot read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

void expand_shorthand(Node& node, const char* key) {
  if (!node.is_scalar()) return;
  Node map = make_map(node.where);
  map.members.push_back({key, node.where, std::move(node)});
  node = std::move(map);
}

Node load_file_layers(const std::string& path, const ConfigSchemas& schemas) {
  return FileLoader(schemas).load(path, nullptr);
}

bool is_of_run(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  return file.filename() == "config.yaml" && (std::filesystem::exists(folder / "metrics.jsonl") ||
                                              std::filesystem::exists(folder / "checkpoints"));
}

Node load_text_layer(const std::string& text, const std::string& source,
                     const ConfigSchemas& schemas, ConfigOrigin origin) {
  Node root = parse_yaml(text, {std::make_shared<const std::string>(source), 1, 1, 0});
  for (const Member& m : root.members) {
    if (m.key == "base") fail(m.where, "base: is for files only; this text has no folder");
  }
  check_is_run(root);
  prepare(root, schemas);
  if (origin == ConfigOrigin::kStored) drop_unread(root, schemas);
  return root;
}

void apply_overrides(Node& root, std::span<const std::string> overrides,
                     const ConfigSchemas& schemas) {
  if (overrides.empty()) return;
  Node all = make_map({});
  for (const std::string& text : overrides) {
    Node one = parse_override(text);
    prepare(one, schemas);
    merge(all, std::move(one));
  }
  prepare(all, schemas);  // together they may conflict
  const Where where = root.where;
  put_over(root, std::move(all), schemas);
  root.where = where;
}

void apply_layer(Node& root, Node layer, int rank, const ConfigSchemas& schemas) {
  prepare(layer, schemas);
  set_rank(layer, rank);
  const Where where = root.where;
  put_over(root, std::move(layer), schemas);
  root.where = where;
}

void check_layer(Node layer, const ConfigSchemas& schemas) { prepare(layer, schemas); }

}  // namespace dtn::config
