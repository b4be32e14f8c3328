// A table of named choices: normalizers, models, tasks, data sets. The library fills it and a
// program may add entries. Nothing registers itself.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dtn/core/check.h"

namespace dtn {

// Entry has a member function name(). schemas() also needs a member `schema`.
template <class Entry>
class Registry {
 public:
  // `what` is the word for an entry in messages: "normalizer".
  Registry(std::string what, std::vector<Entry> entries) : what_(std::move(what)) {
    for (Entry& entry : entries) add(std::move(entry));
  }

  // Throws Error if the name is taken.
  void add(Entry entry) {
    DTN_CHECK(!find(entry.name()), "there is a ", what_, " '", entry.name(), "' already");
    entries_.push_back(std::move(entry));
  }

  // Null if there is no entry with this name.
  const Entry* find(std::string_view name) const {
    const auto found =
        std::ranges::find_if(entries_, [&](const Entry& e) { return e.name() == name; });
    return found == entries_.end() ? nullptr : &*found;
  }
  // Throws ConfigError, listing all known names, if there is no entry with this name.
  const Entry& at(std::string_view name) const {
    if (const Entry* entry = find(name)) return *entry;
    std::string known;
    for (const Entry& entry : entries_)
      known += (known.empty() ? "" : ", ") + std::string(entry.name());
    throw ConfigError(cat("unknown ", what_, " '", name, "'; known: ", known));
  }

  // Schemas of all entries, for code in lower layers, such as the config loader.
  auto schemas() const {
    std::vector<std::remove_cvref_t<decltype(std::declval<Entry>().schema)>> all;
    for (const Entry& entry : entries_) all.push_back(entry.schema);
    return all;
  }

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }

 private:
  std::string what_;
  std::vector<Entry> entries_;
};

}  // namespace dtn
