// A table of named choices: normalizers, models, tasks, data sets. The library fills it and a
// program may add rows. Nothing registers itself.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dtn/core/check.h"

namespace dtn {

// Row has a member function name(). schemas() also needs a member `schema`.
template <class Row>
class Registry {
 public:
  // `what` is the word for a row in messages: "normalizer".
  Registry(std::string what, std::vector<Row> rows) : what_(std::move(what)) {
    for (Row& row : rows) add(std::move(row));
  }

  // Throws Error if the name is taken.
  void add(Row row) {
    DTN_CHECK(!find(row.name()), "there is a ", what_, " '", row.name(), "' already");
    rows_.push_back(std::move(row));
  }

  // Null if there is no row with this name.
  const Row* find(std::string_view name) const {
    const auto found = std::ranges::find_if(rows_, [&](const Row& r) { return r.name() == name; });
    return found == rows_.end() ? nullptr : &*found;
  }
  // Throws ConfigError, listing all known names, if there is no row with this name.
  const Row& at(std::string_view name) const {
    if (const Row* row = find(name)) return *row;
    std::string known;
    for (const Row& row : rows_) known += (known.empty() ? "" : ", ") + std::string(row.name());
    throw ConfigError(cat("unknown ", what_, " '", name, "'; known: ", known));
  }

  // Schemas of all rows, for code in lower layers, such as the config loader.
  auto schemas() const {
    std::vector<std::remove_cvref_t<decltype(std::declval<Row>().schema)>> all;
    for (const Row& row : rows_) all.push_back(row.schema);
    return all;
  }

  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }
  std::size_t size() const { return rows_.size(); }

 private:
  std::string what_;
  std::vector<Row> rows_;
};

}  // namespace dtn
