// The table of config keys: one row per key, used to read, to write and to know what exists.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "config/codec.h"
#include "dtn/config/train_config.h"

namespace dtn::config {

struct Key {
  std::string path;  // "section.key"
  // What it means to somebody who knows the field and not this program: a phrase without a full
  // stop. It is the documentation (see key_docs.h), and stands beside a wrong value.
  std::string doc;
  std::function<void(const Field&, ExperimentConfig&)> read;
  std::function<std::string(const ExperimentConfig&)> write;
  std::string type{};  // "integer"
  Range range{};       // of each number
  // What it may say, if that is a list of words; empty too where the words are rows of a registry.
  std::vector<std::string> choices{};
  std::string example{};  // needed only where none follows from the default, see key_docs.h
};

// In the order they are read and written; model.preset comes before what it sets. The options of
// the normalizers (also under model.norm) are not here: they come from the registry.
std::span<const Key> keys();

// Sections that may be written as one plain value: `norm: ln` is short for `norm: {type: ln}`.
struct Shorthand {
  const char* section;
  const char* key;
};
inline constexpr Shorthand kShorthands[] = {{"model.norm", "type"}, {"augment", "preset"}};

inline constexpr const char* kNormSection = "model.norm";

}  // namespace dtn::config
