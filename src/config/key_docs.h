// What there is to say of every key of a config, taken from the tables that read it: docs/config.md,
// `dtn-info --keys`, the comments of config.yaml and the completion of command lines are made of it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "dtn/config/schemas.h"

namespace dtn::config {

struct KeyDoc {
  std::string path;     // "optim.lr"
  std::string meaning;  // a phrase without a full stop
  std::string allowed;  // "number above 0"
  // As a config writes it, with what departs from it: "1.0e-08 (lamb 1.0e-06)"; "unset".
  std::string default_value;
  std::string example;   // a value, as a config writes it
  std::string only_for;  // where other choices have no use for the key: "optim.name sgd"
  std::vector<std::string> choices{};  // the words that it may say, if these are all or most of it
  std::vector<std::string> norms{};    // the normalizers whose option it is, if it is one

  bool is_for(const std::string& norm) const {
    return norms.empty() || std::ranges::count(norms, norm) > 0;
  }
};

// In the order of config.yaml. An option that several normalizers have, with different meanings, has
// an entry for each of these.
std::vector<KeyDoc> key_docs(const ConfigSchemas& schemas);

// For people at a terminal of so many columns.
std::string to_text(const std::vector<KeyDoc>& docs, std::size_t columns);
// The whole of docs/config.md.
std::string to_markdown(const std::vector<KeyDoc>& docs);

// Breaks `text` at spaces into lines of at most `columns` characters, each begun with `indent`.
std::string wrapped(const std::string& text, std::size_t columns, const std::string& indent);

}  // namespace dtn::config
