// Layers of an experiment's config: base files, the file itself, --set overrides. Each layer is
// checked for unknown keys separately, and then merged over the layers below it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "config/document.h"
#include "dtn/config/load.h"

namespace dtn::config {

inline constexpr std::size_t kMaxBaseDepth = 16;  // maximum length of a chain of base files

// Loads a file together with everything that it inherits.
Node load_file_layers(const std::string& path, const ConfigSchemas& schemas);
// Loads a single text. `base:` is an error, because a text has no folder for relative paths.
Node load_text_layer(const std::string& text, const std::string& source,
                     const ConfigSchemas& schemas, ConfigOrigin origin);
// Merges "key.path=value" overrides over `root`.
void apply_overrides(Node& root, std::span<const std::string> overrides,
                     const ConfigSchemas& schemas);

// Merges the keys of a text over `root`, with `rank` as their Where::layer.
void apply_layer(Node& root, Node layer, int rank, const ConfigSchemas& schemas);
// If the node is a scalar, makes it a map with this key.
void expand_shorthand(Node& node, const char* key);
// Throws an error for an unknown key and for any other mistake visible in this layer alone.
void check_layer(Node layer, const ConfigSchemas& schemas);

// Converts the merged tree to a checked config. `resample` is the value of data.resample if the
// tree does not set it.
ExperimentConfig resolve(const Node& root, const ConfigSchemas& schemas, Resample resample);
// Reads the options of the normalizer model.norm.type, and fills in defaults.
void read_norm_options(const Node& root, std::span<const NormSchema> norms, ModelConfig& model);
// Throws an error if values that are valid individually are incompatible.
void check_combinations(const ExperimentConfig& config, const Node& root,
                        const ConfigSchemas& schemas);

// True if a run wrote this file: the run's other outputs are in the same folder.
bool is_of_run(const std::filesystem::path& file);
// Returns the text of a file, or just enough of it to show that it is too long. If the file cannot
// be read, the error points to the value of `key` at `asked_by`, if that is not null.
std::string read_text(const std::filesystem::path& path, const Where* asked_by, const char* key);
// Finds a config that comes with the program, by name. Throws the same errors as find_config().
std::string find_shipped_config(const std::string& name, const ConfigSchemas& schemas);
// Finds a file that a config names as its base: a path relative to `folder`, or a shipped config.
// If there is neither, the error points to the value of `key` at `where`.
std::string find_named_file(const std::string& name, const std::string& key, const Where& where,
                            const std::filesystem::path& folder, const ConfigSchemas& schemas);

}  // namespace dtn::config
