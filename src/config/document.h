// A parsed config text: a small tree that stores the position of every value.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtn/core/check.h"

namespace dtn::config {

// Position in a text. Line and column count from 1; a --set override has neither.
struct Where {
  std::shared_ptr<const std::string> source;
  int line = 0;
  int column = 0;
  // Rank of the text: a base file is below the file that names it, and --set is on top.
  int layer = 0;
};

inline constexpr int kOverrideLayer = std::numeric_limits<int>::max();  // of --set

std::string to_string(const Where& where);

template <class... Args>
[[noreturn]] void fail(const Where& where, const Args&... args) {
  throw ConfigError(cat(to_string(where), ": ", args...));
}

struct Member;

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  bool quoted = false;          // a quoted scalar is text, never a number, a boolean or null
  std::string text;             // scalar
  std::vector<Node> items;      // list
  std::vector<Member> members;  // map, in the order written; keys are unique
  Where where;

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }
  // Returns the member of a map, or nullptr.
  const Node* find(const std::string& key) const;
  // Follows "a.b.c" through nested maps; returns nullptr if a part is missing.
  const Node* at(const std::string& path) const;
  Node* at(const std::string& path);
  // Returns the value at `path`; nullptr if it is missing or null.
  const Node* value_at(const std::string& path) const;
  // Removes the member at `path`, if it exists.
  void erase(const std::string& path);
};

struct Member {
  std::string key;
  Where where;  // of the key
  Node value;
};

Node make_map(const Where& where);
// Returns the scalar at `path`, or an empty text if there is none.
std::string text_of(const Node& root, const std::string& path);

// Merges `above` into `below`: maps key by key; any other value is replaced.
void merge(Node& below, Node above);

// Formats a text for messages: shortened, with unprintable characters replaced.
std::string shown(const std::string& text);
// Describes a node, for "must be a number, not ...": 'abc', a list, a map, null.
std::string shown(const Node& node);

// Returns the candidate with the smallest edit distance to `word`; empty if there is no candidate.
std::string nearest(const std::string& word, std::span<const std::string> candidates);
// Number of letters to add, leave out, replace or swap with their neighbour to change `a` into `b`.
std::size_t edit_distance(const std::string& a, const std::string& b);
// Returns nearest() if at most a third of the letters differ (a plausible misspelling); else empty.
std::string guess(const std::string& word, std::span<const std::string> candidates);
// Returns "; did you mean 'x'?" with guess(), or `otherwise` if there is no guess.
std::string did_you_mean(const std::string& word, std::span<const std::string> candidates,
                         const char* otherwise = "");

// Joins the words of a range, or the words that `word_of` returns for its items.
template <class Range, class WordOf = std::identity>
std::string join(const Range& range, const char* separator = ", ", WordOf word_of = {}) {
  std::string out;
  for (const auto& item : range) {
    out += cat(out.empty() ? "" : separator, std::invoke(word_of, item));
  }
  return out;
}

// The last part of a dotted path, and the part before it (empty for a top-level key).
std::string leaf_of(const std::string& path);
std::string section_of(const std::string& path);

// Parses one YAML document strictly. Duplicate keys, anchors, aliases, tags, merge keys, several
// documents, control characters, broken UTF-8, deep nesting and large texts are errors. Positions
// are stored if `origin.line` is 1, and left out if it is 0 (an override).
Node parse_yaml(const std::string& text, const Where& origin);
// Checks a value that is not parsed as YAML as strictly as parse_yaml(): valid UTF-8 on a single
// line, without control characters, and not too long.
void check_plain_value(const std::string& text, const Where& where);

}  // namespace dtn::config
