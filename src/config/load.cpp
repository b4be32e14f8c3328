#include "dtn/config/load.h"

#include <algorithm>
#include <filesystem>

#include "config/choices.h"
#include "config/key_docs.h"
#include "config/keys.h"
#include "config/layers.h"
#include "config/presets.h"

namespace dtn {
namespace config {

namespace {

// Returns the preset's value if the model is deep enough, otherwise depth - 2 as in the paper. The
// class token joins before the last block at the latest, so that the head sees the image.
int class_token_at_for(const ModelConfig& model) {
  const int depth = model.blocks();
  if (model.class_token_at < depth) return model.class_token_at;
  return depth > 2 ? depth - 2 : depth - 1;
}

// Checks that the value of the key is the name of one of `schemas`.
template <class Schema>
void check_name(const Node& root, const char* path, const std::vector<Schema>& schemas) {
  const Node* chosen = root.value_at(path);
  if (chosen == nullptr) return;
  std::vector<std::string> names;
  for (const Schema& schema : schemas) names.push_back(schema.name);
  const auto key = std::ranges::find(keys(), path, &Key::path);
  read_choice({*chosen, key->path, key->doc}, names);
}

// Sets the defaults of the optimizer; values of the config override them later.
void set_optimizer_defaults(const Node& root, const std::vector<OptimizerSchema>& schemas,
                            OptimConfig& optim) {
  const Node* chosen = root.at("optim.name");
  const auto schema =
      std::ranges::find(schemas, chosen ? chosen->text : optim.name, &OptimizerSchema::name);
  if (schema != schemas.end() && schema->defaults) schema->defaults(optim);
}

// The same for the schedule.
void set_schedule_defaults(const Node& root, const std::vector<ScheduleSchema>& schemas,
                           ScheduleConfig& schedule) {
  const Node* chosen = root.at("schedule.name");
  const auto schema =
      std::ranges::find(schemas, chosen ? chosen->text : schedule.name, &ScheduleSchema::name);
  if (schema != schemas.end() && schema->defaults) schema->defaults(schedule);
}

}  // namespace

ExperimentConfig resolve(const Node& root, const ConfigSchemas& schemas, Resample resample) {
  ExperimentConfig config;
  config.model = read_preset(root, schemas);
  config.data.resample = resample;
  set_optimizer_defaults(root, schemas.optimizers, config.optim);
  set_schedule_defaults(root, schemas.schedules, config.schedule);
  ExperimentConfig usual = config;
  for (const Key& key : keys()) {
    if (const Node* node = root.value_at(key.path)) key.read({*node, key.path, key.doc}, config);
  }
  const std::string task = task_in(root, schemas.tasks);
  if (!task.empty()) config.task = task;
  check_name(root, "task", schemas.tasks);
  check_name(root, "data.dataset", schemas.datasets);
  check_name(root, "optim.name", schemas.optimizers);
  check_name(root, "schedule.name", schemas.schedules);
  if (!config.schedule.steps && !config.schedule.epochs) config.schedule.epochs = 300;
  // The preset's class_token_at may exceed the depth of a shallower model.
  if (root.at("model.class_token_at") == nullptr) {
    config.model.class_token_at = class_token_at_for(config.model);
  }
  read_norm_options(root, schemas.norms, config.model);
  check_read(root, config, usual, schemas);
  check_combinations(config, root, schemas);
  return config;
}

namespace {

// Returns every key and the text of its value, in writing order.
std::vector<std::pair<std::string, std::string>> written(const ExperimentConfig& config) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Key& key : keys()) {
    if (key.of_task && section_of(key.path) != config.task) continue;
    out.emplace_back(key.path, key.write(config));
    for (const char* section : kNormSections) {
      const NormConfig* norm = norm_of(config.model, section);
      if (norm == nullptr || section_of(key.path) != section) continue;
      if (key.path != last_norm_key(section)) continue;
      for (const NormOption& option : norm->options) {
        out.emplace_back(cat(section, ".", option.key),
                         std::visit([](const auto& v) { return write_value(v); }, option.value));
      }
    }
  }
  return out;
}

// Writes "a.b.c" keys as nested maps; keys of one section must be adjacent.
class Writer {
 public:
  void add(const std::string& path, const std::string& text,
           const std::vector<std::string>& comments = {}) {
    open(section_of(path));
    for (const std::string& comment : comments) {
      out_ += wrapped(comment, kColumns, indent(depth_) + "# ");
    }
    out_ += cat(indent(depth_), leaf_of(path), ": ", text, "\n");
  }
  std::string take() { return std::move(out_); }

 private:
  static constexpr std::size_t kColumns = 100;

  void open(const std::string& section) {
    if (section == section_) return;
    if (!section.empty()) {
      const std::string parent = section_of(section);
      // A return from a subsection to its parent needs no header.
      if (!section_.starts_with(section + ".")) {
        if (!parent.empty()) open(parent);
        out_ += cat(indent(level_of(parent)), leaf_of(section), ":\n");
      }
    }
    section_ = section;
    depth_ = level_of(section);
  }
  static std::string indent(int level) {
    return std::string(2 * static_cast<std::size_t>(level), ' ');
  }
  static int level_of(const std::string& section) {
    int level = section.empty() ? 0 : 1;
    for (char c : section) level += c == '.';
    return level;
  }

  std::string out_;
  std::string section_;
  int depth_ = 0;
};

}  // namespace
}  // namespace config

ExperimentConfig load_experiment(const std::string& path, std::span<const std::string> overrides,
                                 const ConfigSchemas& schemas, Resample resample) {
  config::Node root = config::load_file_layers(path, schemas);
  config::apply_overrides(root, overrides, schemas);
  return config::resolve(root, schemas, config::is_of_run(path) ? Resample::kPillow12 : resample);
}

bool sets_key(const std::string& path, std::span<const std::string> overrides,
              const ConfigSchemas& schemas, const std::string& key) {
  config::Node root = config::load_file_layers(path, schemas);
  config::apply_overrides(root, overrides, schemas);
  return root.value_at(key) != nullptr;
}

ExperimentConfig parse_experiment(const std::string& text, const std::string& source,
                                  std::span<const std::string> overrides,
                                  const ConfigSchemas& schemas, ConfigOrigin origin) {
  config::Node root = config::load_text_layer(text, source, schemas, origin);
  config::apply_overrides(root, overrides, schemas);
  return config::resolve(root, schemas, Resample::kPillow12);
}

std::string task_of_config(const std::string& text) {
  try {
    const config::Node root =
        config::parse_yaml(text, {std::make_shared<const std::string>("config"), 1, 1, 0});
    if (!root.is_map()) return "";
    const config::Node* task = root.value_at("task");
    if (!task) return ExperimentConfig().task;
    return task->is_scalar() ? task->text : "";
  } catch (const ConfigError&) {
    return "";
  }
}

std::vector<std::pair<std::string, std::string>> config_entries(const ExperimentConfig& config) {
  return config::written(config);
}

std::string to_yaml(const ExperimentConfig& config) {
  config::Writer writer;
  for (const auto& [path, text] : config::written(config)) writer.add(path, text);
  return writer.take();
}

std::string to_commented_yaml(const ExperimentConfig& config, const ConfigSchemas& schemas) {
  const std::vector<config::KeyDoc> docs = config::key_docs(schemas);
  const auto comments = [&](const std::string& path) -> std::vector<std::string> {
    for (const config::KeyDoc& doc : docs) {
      // The meaning of an option may depend on the normalizer.
      if (doc.path == path && doc.is_for(config.model.norm.type)) {
        return {doc.meaning, cat(doc.allowed, "; default ", doc.default_value)};
      }
    }
    return {};
  };
  config::Writer writer;
  for (const auto& [path, text] : config::written(config)) writer.add(path, text, comments(path));
  return writer.take();
}

std::vector<std::string> config_differences(const ExperimentConfig& was,
                                            const ExperimentConfig& now) {
  const auto before = config::written(was), after = config::written(now);
  const auto find = [](const auto& list, const std::string& path) -> const std::string* {
    for (const auto& [key, text] : list) {
      if (key == path) return &text;
    }
    return nullptr;
  };
  std::vector<std::string> out;
  for (const auto& [path, text] : after) {
    const std::string* old = find(before, path);
    if (old == nullptr) out.push_back(cat(path, " is ", text, ", was not set"));
    if (old != nullptr && *old != text) out.push_back(cat(path, " is ", text, ", was ", *old));
  }
  for (const auto& [path, text] : before) {
    if (find(after, path) == nullptr) out.push_back(cat(path, " is not set, was ", text));
  }
  return out;
}

}  // namespace dtn
