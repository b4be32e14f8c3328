#include "config/document.h"

#include <algorithm>
#include <utility>

namespace dtn::config {

std::string to_string(const Where& where) {
  const std::string source = where.source ? *where.source : "config";
  return where.line > 0 ? cat(source, ":", where.line, ":", where.column) : source;
}

const Node* Node::find(const std::string& key) const {
  for (const Member& m : members) {
    if (m.key == key) return &m.value;
  }
  return nullptr;
}

const Node* Node::at(const std::string& path) const {
  const Node* node = this;
  for (std::size_t begin = 0; node != nullptr && begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    node = node->find(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return node;
}

Node* Node::at(const std::string& path) { return const_cast<Node*>(std::as_const(*this).at(path)); }

const Node* Node::value_at(const std::string& path) const {
  const Node* node = at(path);
  return node != nullptr && !node->is_null() ? node : nullptr;
}

void Node::erase(const std::string& path) {
  const std::string section = section_of(path), leaf = leaf_of(path);
  Node* map = section.empty() ? this : at(section);
  if (map != nullptr) std::erase_if(map->members, [&](const Member& m) { return m.key == leaf; });
}

std::string text_of(const Node& root, const std::string& path) {
  const Node* node = root.at(path);
  return node != nullptr && node->is_scalar() ? node->text : std::string();
}

Node make_map(const Where& where) {
  Node node;
  node.kind = Node::Kind::kMap;
  node.where = where;
  return node;
}

void merge(Node& below, Node above) {
  if (!below.is_map() || !above.is_map()) {
    below = std::move(above);
    return;
  }
  for (Member& m : above.members) {
    const auto old = std::find_if(below.members.begin(), below.members.end(),
                                  [&](const Member& b) { return b.key == m.key; });
    if (old == below.members.end()) {
      below.members.push_back(std::move(m));
    } else {
      old->where = m.where;
      merge(old->value, std::move(m.value));
    }
  }
}

std::string shown(const std::string& text) {
  constexpr std::size_t kMax = 80;
  std::string out = text.substr(0, kMax);
  if (text.size() > kMax) {
    // Do not cut a UTF-8 character.
    while (!out.empty() && (static_cast<unsigned char>(text[out.size()]) & 0xC0) == 0x80) {
      out.pop_back();
    }
    out += "...";
  }
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return out;
}

std::string shown(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull: return "null";
    case Node::Kind::kList: return "a list";
    case Node::Kind::kMap: return "a map";
    case Node::Kind::kScalar: break;
  }
  return node.quoted ? cat("the text '", shown(node.text), "'") : cat("'", shown(node.text), "'");
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  // row[j]: distance of the first i letters of `a` to the first j of `b`. Three rows are enough.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest(const std::string& word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best ? *best : std::string();
}

std::string guess(const std::string& word, std::span<const std::string> candidates) {
  const std::string best = nearest(word, candidates);
  const std::size_t letters = std::max(word.size(), best.size());
  return 3 * edit_distance(word, best) <= letters ? best : std::string();
}

std::string did_you_mean(const std::string& word, std::span<const std::string> candidates,
                         const char* otherwise) {
  const std::string best = guess(word, candidates);
  return best.empty() ? std::string(otherwise) : cat("; did you mean '", best, "'?");
}

std::string leaf_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

std::string section_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? std::string() : path.substr(0, dot);
}

}  // namespace dtn::config
