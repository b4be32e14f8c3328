// The texts an experiment is made of: base files, the file itself, --set overrides. Each is checked
// for unknown keys on its own and then put over those below it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "config/document.h"
#include "dtn/config/schemas.h"

namespace dtn::config {

inline constexpr std::size_t kMaxBaseDepth = 16;  // files that inherit from one another

// The file with everything it inherits.
Node load_file_layers(const std::string& path, const ConfigSchemas& schemas);
// A text on its own; `base:` is refused, as there is no folder it would be relative to.
Node load_text_layer(const std::string& text, const std::string& source,
                     const ConfigSchemas& schemas);
// Puts "key.path=value" overrides over `root`.
void apply_overrides(Node& root, std::span<const std::string> overrides,
                     const ConfigSchemas& schemas);

// Puts a text's keys over `root`, at this rank of Where::layer.
void apply_layer(Node& root, Node layer, int rank, const ConfigSchemas& schemas);
// Fails for an unknown key and for what else is wrong with a text on its own.
void check_layer(Node layer, const ConfigSchemas& schemas);

// The text of a file, or as much as shows that it is too long. When it cannot be read, the value of
// `key` at `asked_by` is to blame, if there is one.
std::string read_text(const std::filesystem::path& path, const Where* asked_by, const char* key);
// A config that comes with the program, by its name. Throws as find_config does.
std::string find_shipped_config(const std::string& name);
// What a file names as its base: a file relative to its `folder`, or a config that ships. Where there
// is neither, the value of `key` at `where` is to blame.
std::string find_named_file(const std::string& name, const std::string& key, const Where& where,
                            const std::filesystem::path& folder);

}  // namespace dtn::config
