// The texts an experiment is made of: base files, the file itself, --set overrides. Each is checked
// for unknown keys on its own and then put over those below it.
#pragma once

#include <span>
#include <string>

#include "config/document.h"
#include "dtn/config/norm_config.h"

namespace dtn::config {

// The file with everything it inherits.
Node load_file_layers(const std::string& path, std::span<const NormSchema> norms);
// A text on its own; `base:` is refused, as there is no folder it would be relative to.
Node load_text_layer(const std::string& text, const std::string& source,
                     std::span<const NormSchema> norms);
// Puts "key.path=value" overrides over `root`.
void apply_overrides(Node& root, std::span<const std::string> overrides,
                     std::span<const NormSchema> norms);

// Whether a key of the data section means anything for this data set.
bool is_key_of_dataset(const std::string& key, const std::string& dataset);

}  // namespace dtn::config
