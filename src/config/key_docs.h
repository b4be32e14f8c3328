// Documentation of every config key, from the tables that read the keys. It feeds docs/config.md,
// `dtn-info --keys`, the comments of config.yaml and the completion of command lines.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "dtn/config/schemas.h"

namespace dtn::config {

struct KeyDoc {
  std::string path;     // "optim.lr"
  std::string meaning;  // a phrase without a full stop
  std::string allowed;  // "number above 0"
  // As a config writes it, with exceptions in parentheses: "1.0e-08 (lamb 1.0e-06)"; "unset".
  std::string default_value;
  std::string example;                 // a value, as a config writes it
  std::vector<std::string> read_by;    // names of the entries that read the key; empty: all
  std::vector<std::string> choices{};  // the words it accepts, if they cover most values
  bool is_norm_option = false;         // read_by holds normalizers

  bool is_for(const std::string& norm) const {
    return !is_norm_option || std::ranges::count(read_by, norm) > 0;
  }
};

// Returns all keys in the order of config.yaml. An option that means different things in several
// normalizers has one entry for each meaning.
std::vector<KeyDoc> key_docs(const ConfigSchemas& schemas);

// Formats the documentation for a terminal with this number of columns.
std::string to_text(const std::vector<KeyDoc>& docs, std::size_t columns);
// Returns the complete text of docs/config.md.
std::string to_markdown(const std::vector<KeyDoc>& docs);

// A name that timm, DeiT, Hugging Face or Keras gives to a key, and that is no key here.
struct KeySynonym {
  std::string word;  // lower case, with underscores
  const char* path;
};
const std::vector<KeySynonym>& key_synonyms();

// Returns the paths among `known` that `word` may mean: the path of a synonym, or else the keys
// whose last part is `word`. Ignores case, and reads "-" as "_". Empty if there is no match.
std::vector<std::string> paths_meant_by(const std::string& word,
                                        const std::set<std::string>& known);

// Breaks `text` at spaces into lines of at most `columns` characters, each with `indent` in front.
std::string wrapped(const std::string& text, std::size_t columns, const std::string& indent);

}  // namespace dtn::config
