// Table of config keys: one row per key, used to read, to write and to list the keys.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "config/codec.h"
#include "dtn/config/train_config.h"

namespace dtn::config {

struct Key {
  std::string path;  // "section.key"
  // Explanation for a person who knows the field but not this program: a phrase without a full
  // stop. It is the documentation (see key_docs.h), and also part of the error for a wrong value.
  std::string doc;
  std::function<void(const Field&, ExperimentConfig&)> read;
  std::function<std::string(const ExperimentConfig&)> write;
  std::string type{};  // "integer"
  Range range{};       // of each number
  // Allowed words, if the value is one of a fixed list. Empty if the words come from a registry.
  std::vector<std::string> choices{};
  std::string example{};  // needed only if the default gives none; see key_docs.h
  // True if the section has the name of the task that reads it. A config of another task does not
  // list the key.
  bool of_task = false;
};

// All keys in the order in which they are read and written; model.preset comes before the keys that
// it sets. The options of the normalizers (kNormSections) come from the registry instead.
std::span<const Key> keys();

// Sections that may be written as one scalar: `norm: ln` is short for `norm: {type: ln}`.
struct Shorthand {
  const char* section;
  const char* key;
};
inline constexpr Shorthand kShorthands[] = {
    {"model.norm", "type"}, {"model.decoder_norm", "type"}, {"augment", "preset"}};

// Sections that name a normalizer and hold its options.
inline constexpr const char* kNormSection = "model.norm";
inline constexpr const char* kDecoderNormSection = "model.decoder_norm";
inline constexpr const char* kNormSections[] = {kNormSection, kDecoderNormSection};
// Returns the path of the last key of such a section; the normalizer's options follow it.
const std::string& last_norm_key(const std::string& section);
// Returns the normalizer of such a section; null: the section is not set.
const NormConfig* norm_of(const ModelConfig&, const std::string& section);

}  // namespace dtn::config
