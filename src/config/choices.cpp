#include "config/choices.h"

#include <algorithm>

#include "config/key_rows.h"
#include "config/layers.h"
#include "config/presets.h"
#include "dtn/config/load.h"

namespace dtn::config {
namespace {

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::ranges::find(list, word) != list.end();
}

std::vector<std::string> paths_in(const std::string& section,
                                  const std::vector<std::string>& leaves) {
  std::vector<std::string> paths;
  for (const std::string& leaf : leaves) paths.push_back(cat(section, ".", leaf));
  return paths;
}

// Returns a choice without entries, whose key holds the name of the entry. `of_config` finds that
// name in a config.
Choice named_choice(const char* key, const char* what,
                    std::function<std::string(const ExperimentConfig&)> of_config) {
  Choice choice;
  choice.key = key;
  choice.what = what;
  choice.usual = of_config(ExperimentConfig());
  choice.of_config = std::move(of_config);
  choice.of_layer = [key](const Node& layer) { return text_of(layer, key); };
  return choice;
}

// Returns a choice among `schemas`, which read keys of one section. `own` lists keys that mean
// something else in each entry.
template <class Schema>
Choice choice_by_name(const char* key, const char* what, const std::string& section,
                      const std::vector<Schema>& schemas, std::string Schema::*name,
                      std::function<std::string(const ExperimentConfig&)> of_config,
                      const std::vector<std::string>& own = {}) {
  Choice choice = named_choice(key, what, std::move(of_config));
  for (const Schema& schema : schemas) {
    choice.entries.push_back(
        {schema.*name, paths_in(section, schema.reads), paths_in(section, own)});
  }
  return choice;
}

// Adds the path to what every task reads that does not list it as unread.
void add_readers(const std::string& path, const std::vector<TaskSchema>& tasks, Choice& choice) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::vector<std::string>& reads = choice.entries[i].reads;
    if (!contains(tasks[i].unread, path) && !contains(reads, path)) reads.push_back(path);
  }
}

Choice task_choice(const ConfigSchemas& schemas) {
  Choice choice = named_choice("task", "task", FIELD(task));
  choice.of_layer = [&tasks = schemas.tasks](const Node& layer) { return task_in(layer, tasks); };
  for (const TaskSchema& task : schemas.tasks) {
    Choice::Entry& entry = choice.entries.emplace_back();
    entry.name = task.name;
    for (const Key& key : keys()) {
      if (contains(task.sections, section_of(key.path))) entry.reads.push_back(key.path);
    }
    entry.reads.insert(entry.reads.end(), task.keys.begin(), task.keys.end());
  }
  for (const TaskSchema& task : schemas.tasks) {
    for (const std::string& path : task.unread) add_readers(path, schemas.tasks, choice);
  }
  return choice;
}

Choice optimizer_choice(const ConfigSchemas& schemas) {
  Choice choice = choice_by_name("optim.name", "optimizer", "optim", schemas.optimizers,
                                 &OptimizerSchema::name, FIELD(optim.name));
  // Values that suit an optimizer do not suit one with other defaults.
  const std::vector<std::string> listed = choice.listed();
  for (std::size_t i = 0; i < choice.entries.size(); ++i) {
    if (schemas.optimizers[i].defaults) choice.entries[i].own = listed;
  }
  return choice;
}

Choice family_choice(const ConfigSchemas& schemas) {
  Choice choice = choice_by_name("model.preset", "model family", "model", schemas.models,
                                 &ModelSchema::family, FIELD(model.family));
  choice.usual.clear();  // there is no default preset
  // A preset that does not exist has no family; reading the key reports it.
  choice.of_layer = [path = choice.key, &presets = schemas.presets](const Node& layer) {
    const PresetSchema* preset = find_preset(text_of(layer, path), presets);
    return preset ? preset->model.family : std::string();
  };
  return choice;
}

// Returns the choice of a normalizer in a section of kNormSections, which reads its options.
Choice norm_choice(const std::string& section, const ConfigSchemas& schemas) {
  Choice choice;
  choice.key = cat(section, ".type");
  choice.what = "normalizer";
  choice.of_config = [section](const ExperimentConfig& c) {
    const NormConfig* norm = norm_of(c.model, section);
    return norm ? norm->type : std::string();
  };
  choice.of_layer = [path = choice.key](const Node& layer) { return text_of(layer, path); };
  for (const NormSchema& norm : schemas.norms) {
    std::vector<std::string> options;
    for (const OptionSchema& option : norm.options) {
      options.push_back(cat(section, ".", option.key));
    }
    choice.entries.push_back({norm.type, options, options});
  }
  return choice;
}

// Returns the choice of the normalizers again, which reads the keys of the condition.
Choice condition_choice(const ConfigSchemas& schemas) {
  const Choice decoder = norm_choice(kDecoderNormSection, schemas);
  Choice choice = norm_choice(kNormSection, schemas);
  choice.second_of_config = decoder.of_config;
  choice.second_of_layer = decoder.of_layer;
  for (std::size_t i = 0; i < schemas.norms.size(); ++i) {
    Choice::Entry& entry = choice.entries[i];
    entry = {entry.name, {}, {}};
    if (!schemas.norms[i].reads_condition) continue;
    entry.reads = paths_in("model.condition", {"from", "size", "styles"});
    for (const std::string& key : schemas.norms[i].reads) entry.reads.push_back("model." + key);
  }
  return choice;
}

// Drops the values of `below` that neither key of a choice with two keys reads, if `above` sets one
// of these keys.
void drop_superseded_by_either(const Choice& choice, Node& below, const Node& above) {
  std::string first = choice.of_layer(above), second = choice.second_of_layer(above);
  if (first.empty() && second.empty()) return;
  if (first.empty()) first = choice.of_layer(below);
  if (second.empty()) second = choice.second_of_layer(below);
  for (const std::string& path : choice.listed()) {
    if (!choice.lists(first, path) && !choice.lists(second, path)) below.erase(path);
  }
}

}  // namespace

const Choice::Entry* Choice::find(const std::string& entry) const {
  const auto found = std::ranges::find(entries, entry, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

std::vector<std::string> Choice::listed() const {
  std::vector<std::string> all;
  for (const Entry& entry : entries) {
    for (const std::string& path : entry.reads) {
      if (!contains(all, path)) all.push_back(path);
    }
  }
  return all;
}

std::vector<std::string> Choice::readers_of(const std::string& path) const {
  std::vector<std::string> readers;
  for (const Entry& entry : entries) {
    if (contains(entry.reads, path)) readers.push_back(entry.name);
  }
  return readers;
}

bool Choice::reads(const std::string& entry, const std::string& path) const {
  const std::vector<std::string> readers = readers_of(path);
  return readers.empty() || find(entry) == nullptr || contains(readers, entry);
}

bool Choice::lists(const std::string& entry, const std::string& path) const {
  const Entry* found = find(entry);
  return found != nullptr && contains(found->reads, path);
}

std::string task_in(const Node& layer, const std::vector<TaskSchema>& tasks) {
  std::string named = text_of(layer, "task");
  if (!named.empty()) return named;
  const auto implied = std::ranges::find_if(tasks, [&](const TaskSchema& task) {
    return !task.implied_by.empty() && layer.value_at(task.implied_by) != nullptr;
  });
  return implied == tasks.end() ? "" : implied->name;
}

std::vector<Choice> choices_of(const ConfigSchemas& schemas) {
  return {task_choice(schemas), family_choice(schemas), norm_choice(kNormSection, schemas),
          norm_choice(kDecoderNormSection, schemas), condition_choice(schemas),
          // Split names are folders, files or prefixes, depending on the data set.
          choice_by_name("data.dataset", "data set", "data", schemas.datasets, &DatasetSchema::name,
                         FIELD(data.dataset), {"train", "val"}),
          optimizer_choice(schemas),
          choice_by_name("schedule.name", "schedule", "schedule", schemas.schedules,
                         &ScheduleSchema::name, FIELD(schedule.name), {"decay_epochs"})};
}

bool is_read(const std::string& path, const ExperimentConfig& config,
             const ConfigSchemas& schemas) {
  return std::ranges::all_of(choices_of(schemas), [&](const Choice& choice) {
    return choice.reads(choice.of_config(config), path) ||
           (choice.second_of_config && choice.lists(choice.second_of_config(config), path));
  });
}

void drop_superseded_choices(Node& below, const Node& above, const ConfigSchemas& schemas) {
  for (const Choice& choice : choices_of(schemas)) {
    if (choice.second_of_layer) {
      drop_superseded_by_either(choice, below, above);
      continue;
    }
    const std::string chosen = choice.of_layer(below);
    const std::string before = chosen.empty() ? choice.usual : chosen;
    const std::string after = choice.of_layer(above);
    if (after.empty() || after == before) continue;
    const Choice::Entry *old_entry = choice.find(before), *new_entry = choice.find(after);
    for (const std::string& path : choice.listed()) {
      const bool kept =
          choice.reads(after, path) && !(old_entry != nullptr && contains(old_entry->own, path)) &&
          !(new_entry != nullptr && contains(new_entry->own, path) && !before.empty());
      if (!kept) below.erase(path);
    }
  }
}

void drop_unread(Node& root, const ConfigSchemas& schemas) {
  for (const Choice& choice : choices_of(schemas)) {
    const std::string chosen = choice.of_layer(root);
    const std::string entry = chosen.empty() ? choice.usual : chosen;
    const std::string second = choice.second_of_layer ? choice.second_of_layer(root) : "";
    for (const std::string& path : choice.listed()) {
      if (!choice.reads(entry, path) && !choice.lists(second, path)) root.erase(path);
    }
  }
}

void check_read(const Node& root, const ExperimentConfig& config, const ExperimentConfig& usual,
                const ConfigSchemas& schemas) {
  for (const Choice& choice : choices_of(schemas)) {
    const std::string entry = choice.of_config(config);
    const std::string second = choice.second_of_config ? choice.second_of_config(config) : "";
    for (const std::string& path : choice.listed()) {
      const Node* node = root.value_at(path);
      if (node == nullptr || choice.reads(entry, path) || choice.lists(second, path)) continue;
      const auto key = std::ranges::find(keys(), path, &Key::path);
      const bool is_usual = key != keys().end() && key->write(config) == key->write(usual);
      if (is_usual && node->where.layer != kOverrideLayer) continue;
      fail(node->where, path, " is not read by the ", choice.what, " '", entry,
           "'; it is read by: ", join(choice.readers_of(path)), "; remove it");
    }
  }
}

}  // namespace dtn::config
