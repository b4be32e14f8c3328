// The only file that includes yaml-cpp. It uses yaml-cpp's events and not its node trees: node
// trees would accept duplicate keys, expand aliases, and exhaust the stack for deep nesting.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "config/document.h"

namespace dtn::config {
namespace {

// yaml-cpp keeps every token of an open "[" in memory, so the size of the text bounds its memory.
constexpr std::size_t kMaxText = 256 * 1024;
constexpr std::size_t kMaxScalar = 4096;
constexpr std::size_t kMaxNodes = 10'000;
constexpr std::size_t kMaxDepth = 32;

Where position(const Where& origin, int line, int column) {
  Where where = origin;
  if (origin.line > 0) {
    where.line = line;
    where.column = column;
  }
  return where;
}

Where position(const Where& origin, const YAML::Mark& mark) {
  // Some errors have a null mark, which is -1.
  return position(origin, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1);
}

// Returns the bytes of the UTF-8 character at text[i], or 0 if it is broken.
std::size_t utf8_length(const std::string& text, std::size_t i) {
  const auto byte = [&](std::size_t k) -> unsigned {
    return k < text.size() ? static_cast<unsigned char>(text[k]) : 0;
  };
  const unsigned lead = byte(i);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xC2   ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(i + 1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool outside = (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : length;
}

void check_text(const std::string& text, const Where& origin) {
  if (text.size() > kMaxText) {
    fail(position(origin, 1, 1), "the text has ", text.size(), " bytes; a config has at most ",
         kMaxText);
  }
  int line = 1, column = 1;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    if (length == 0) fail(position(origin, line, column), "the text is not valid UTF-8");
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
      fail(position(origin, line, column), "control character with code ", int{c},
           "; a config is plain text");
    }
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n';
    i += length;
  }
}

class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const Where& origin) : origin_(origin) {}

  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) fail(at(mark), "a config is a single YAML document");
  }
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(at(mark), "aliases (*name) are not allowed; write the value out or inherit with base:");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_anchor(mark, 1); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    Node node;
    node.where = at(mark);
    add(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (value.size() > kMaxScalar) {
      fail(at(mark), "a value of ", value.size(), " bytes; at most ", kMaxScalar, " are allowed");
    }
    if (value.find('\0') != std::string::npos) fail(at(mark), "a value contains a NUL character");
    Node node;
    node.kind = Node::Kind::kScalar;
    node.text = value;
    node.quoted = tag == "!";  // yaml-cpp's tag of a quoted scalar
    node.where = at(mark);
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Key {
    std::string text;
    Where where;
  };
  struct Frame {
    Node node;
    std::optional<Key> key;  // map: the key that waits for its value
  };

  Where at(const YAML::Mark& mark) const { return position(origin_, mark); }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0) fail(at(mark), "anchors (&name) are not allowed");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") {
      fail(at(mark), "tags are not allowed: '", shown(tag), "'");
    }
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (stack_.size() >= kMaxDepth) {
      fail(at(mark), "values are nested deeper than ", kMaxDepth, " levels");
    }
    if (wants_key())
      fail(at(mark), "a key must be plain text, not a list or a map; is a bracket not closed?");
    Frame frame;
    frame.node.kind = kind;
    frame.node.where = at(mark);
    stack_.push_back(std::move(frame));
  }

  void close() {
    Node node = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(node));
  }

  bool wants_key() const {
    return !stack_.empty() && stack_.back().node.is_map() && !stack_.back().key;
  }

  void add(Node node) {
    if (++nodes_ > kMaxNodes) fail(node.where, "more than ", kMaxNodes, " values in one config");
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.node.is_list()) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.key) {
      frame.key = checked_key(frame.node, node);
    } else {
      Key key = std::move(*frame.key);
      frame.key.reset();
      frame.node.members.push_back({std::move(key.text), key.where, std::move(node)});
    }
  }

  // A linear search per key is quadratic in total; no real map has more than kMaxMembers keys.
  Key checked_key(const Node& map, const Node& node) const {
    constexpr std::size_t kMaxMembers = 200;
    if (node.is_null() || node.text.empty()) fail(node.where, "a key is empty");
    if (!node.quoted && node.text == "<<") {
      fail(node.where, "merge keys (<<) are not allowed; inherit with base:");
    }
    for (const Member& m : map.members) {
      if (m.key != node.text) continue;
      fail(node.where, "duplicate key '", shown(node.text), "'",
           m.where.line > 0 ? cat(", first written in line ", m.where.line) : std::string());
    }
    if (map.members.size() >= kMaxMembers) {
      fail(node.where, "more than ", kMaxMembers, " keys in one map");
    }
    return {node.text, node.where};
  }

  Where origin_;
  Node root_;
  std::vector<Frame> stack_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

// True if the indentation of line `line` (from 0) has a tab. The parser reports only what follows.
bool begins_with_tab(const std::string& text, int line) {
  std::istringstream in(text);
  std::string content;
  for (int i = 0; i <= line; ++i) std::getline(in, content);
  return content.substr(0, content.find_first_not_of(" \t")).find('\t') != std::string::npos;
}

// Replaces a message of the parser by one that says what to do. Unlisted messages stay.
std::string complaint(const std::string& message, const std::string& text, int line) {
  if (begins_with_tab(text, line)) return "a tab indents this line; use spaces";
  constexpr std::pair<const char*, const char*> kTexts[] = {
      {"end of map flow not found", "a '{' is not closed; add '}'"},
      {"end of sequence flow not found", "a '[' is not closed; add ']'"},
      {"end of map not found",
       "this line does not line up with those of its section; indent all keys of a section alike"},
      {"end of sequence not found",
       "this line does not line up with the list above it; indent all '-' of a list alike"},
      {"illegal map value", "a second ': ' in one line; put a text that holds one in quotes"},
      {"illegal map key", "a key cannot begin here; begin a line of its own with it"},
      {"illegal block entry", "a list cannot begin here; begin a line of its own with '-'"},
      {"illegal flow end", "this bracket closes none; remove it, or put the text in quotes"},
      {"illegal EOF in scalar", "a quote is not closed; close it"},
      {"unknown token", "a value cannot begin with this character; put the text in quotes"},
      {"unknown escape character",
       "an unknown escape in a text in double quotes; write \\\\ for a backslash, or use single "
       "quotes"},
      {"YAML major version",
       "a version of YAML that this program does not read; remove the %YAML line"},
  };
  for (const auto& [begin, advice] : kTexts) {
    if (message.starts_with(begin)) return advice;
  }
  return message;
}

}  // namespace

void check_plain_value(const std::string& text, const Where& where) {
  if (text.size() > kMaxScalar) {
    fail(where, "a value of ", text.size(), " bytes; at most ", kMaxScalar, " are allowed");
  }
  if (text.find_first_of("\r\n") != std::string::npos) fail(where, "a value is a single line");
  check_text(text, where);
}

Node parse_yaml(const std::string& text, const Where& origin) {
  check_text(text, origin);
  Builder builder(origin);
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    fail(position(origin, e.mark),
         "not valid YAML: ", complaint(e.msg, text, std::max(e.mark.line, 0)));
  }
  Node root = builder.take();
  if (!root.where.source) root.where = position(origin, 1, 1);
  return root;
}

}  // namespace dtn::config
