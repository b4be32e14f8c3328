// Choices of registry entries, and the keys that each entry reads.
//
// A choice is a key whose value names an entry of a registry: model.preset (its family),
// model.norm.type, data.dataset, optim.name, schedule.name, task. Everything that depends on the
// entries follows from their lists of keys: errors for keys that nothing reads, the values that a
// layer does not inherit, and the documentation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/document.h"
#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn::config {

struct Choice {
  struct Entry {
    std::string name;
    std::vector<std::string> reads;  // paths, "optim.momentum"
    // Keys whose values are not inherited from another entry, because they have another meaning or
    // another default there.
    std::vector<std::string> own;
  };

  std::string key;   // "optim.name"
  std::string what;  // of an entry, for messages: "optimizer"
  std::vector<Entry> entries;
  // The name of the entry that a config or a tree chooses. The tree may be a single layer. It then
  // chooses no entry (empty) if it does not set the key.
  std::function<std::string(const ExperimentConfig&)> of_config;
  std::function<std::string(const Node&)> of_layer;
  std::string usual;  // the entry that applies if no layer sets the key; empty: depends on others
  // The same for another key that chooses an entry of the same registry, for the same keys:
  // model.decoder_norm.type beside model.norm.type. Null: there is none.
  std::function<std::string(const ExperimentConfig&)> second_of_config{};
  std::function<std::string(const Node&)> second_of_layer{};

  // Null: no such entry.
  const Entry* find(const std::string& entry) const;
  // The keys that some entry lists, each once.
  std::vector<std::string> listed() const;
  // The entries that list the key, in order. Empty: all entries read it.
  std::vector<std::string> readers_of(const std::string& path) const;
  // True if the entry reads the key: it lists the key, no entry does, or there is no such entry.
  bool reads(const std::string& entry, const std::string& path) const;
  // True if the entry exists and lists the key.
  bool lists(const std::string& entry, const std::string& path) const;
};

// The task that a layer or a tree names, or that one of its keys implies; empty: none.
std::string task_in(const Node& layer, const std::vector<TaskSchema>& tasks);

// The choices refer to `schemas`.
std::vector<Choice> choices_of(const ConfigSchemas& schemas);

// True if all entries that the config chooses read the key.
bool is_read(const std::string& path, const ExperimentConfig& config, const ConfigSchemas& schemas);

// Drops the values of `below` that do not apply to the entries which `above` chooses instead.
void drop_superseded_choices(Node& below, const Node& above, const ConfigSchemas& schemas);
// Drops the values of keys that the entries chosen by `root` do not read.
void drop_unread(Node& root, const ConfigSchemas& schemas);
// Throws an error if `root`, the tree of `config`, sets a key that the chosen entry does not read.
// A value that equals the one of `usual`, the config of defaults, is an error only in --set.
void check_read(const Node& root, const ExperimentConfig& config, const ExperimentConfig& usual,
                const ConfigSchemas& schemas);

}  // namespace dtn::config
