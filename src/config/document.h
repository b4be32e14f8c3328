// A parsed config text: a small tree that remembers where every value was written.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtn/core/check.h"

namespace dtn::config {

// Where something was written. A file gives line and column (from 1); a --set override has none.
struct Where {
  std::shared_ptr<const std::string> source;
  int line = 0;
  int column = 0;
  int layer =
      0;  // rank of the text: a base file is lower than the file that names it, --set is top
};

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
  // The member of a map, or nullptr.
  const Node* find(const std::string& key) const;
  Node* find(const std::string& key);
  // Follows "a.b.c" through nested maps; nullptr where the way ends.
  const Node* at(const std::string& path) const;
  void erase(const std::string& key);
};

struct Member {
  std::string key;
  Where where;  // of the key
  Node value;
};

Node make_map(const Where& where);

// Puts `above` over `below`: maps are merged key by key, anything else is replaced.
void merge(Node& below, Node above);

// Text for messages: shortened, with unprintable characters replaced.
std::string shown(const std::string& text);
// What a node is, for "must be a number, not ...": 'abc', a list, a map, null.
std::string shown(const Node& node);

// The candidate with the smallest edit distance to `word`; empty when there is no candidate.
std::string nearest(const std::string& word, std::span<const std::string> candidates);
// Letters that are added, left out, replaced or swapped with their neighbour to make b of a.
std::size_t edit_distance(const std::string& a, const std::string& b);
// nearest(), if it is a plausible misspelling: at most a third of the letters differ. Else empty.
std::string guess(const std::string& word, std::span<const std::string> candidates);
// "; did you mean 'x'?" with guess(); `otherwise` if there is no guess.
std::string did_you_mean(const std::string& word, std::span<const std::string> candidates,
                         const char* otherwise = "");
std::string join(std::span<const std::string> words, const char* separator = ", ");

// The last part of a dotted path, and all before it (empty for a top-level key).
std::string leaf_of(const std::string& path);
std::string section_of(const std::string& path);

// Parses one YAML document, strictly: duplicate keys, anchors, aliases, tags, merge keys, several
// documents, control characters, broken UTF-8, deep nesting and large texts are errors. Positions
// are kept when `origin.line` is 1 and left out when it is 0 (an override).
Node parse_yaml(const std::string& text, const Where& origin);
// The checks of parse_yaml on a value that is taken as it stands: valid UTF-8 on a single line,
// without control characters, not too long.
void check_plain_value(const std::string& text, const Where& where);

}  // namespace dtn::config
