#include "data/listops/listops_file.h"

#include <algorithm>
#include <cstring>

#include "core/format.h"
#include "core/text.h"
#include "dtn/core/check.h"

namespace dtn::listops {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
// A million tokens need less.
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 24;
// Usual files have more than six bytes per token.
constexpr std::int64_t kUsualBytesPerToken = 6;

// True for characters that end words and have no other meaning.
bool is_filler(char c) { return c == ' ' || c == '(' || c == ')'; }

// Returns the token of a word, or 0 for an unknown word.
Token token_of(std::string_view word) {
  if (word.size() == 1) {
    const char c = word.front();
    if ('0' <= c && c <= '9') return static_cast<Token>(kDigitZero + (c - '0'));
    return c == ']' || c == 'X' ? kClose : Token{0};
  }
  for (Token op = kMax; op <= kSum; ++op) {
    if (word == kWords[op]) return op;
  }
  return 0;
}

// Returns text of a file for a message: shortened, with unprintable bytes as \xNN.
std::string shown(std::string_view text) {
  constexpr std::size_t kMax = 24;
  std::string out = "'";
  for (const char c : text.substr(0, kMax)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte > 0x7e ? format("\\x%02x", byte) : std::string(1, c);
  }
  return out + (text.size() > kMax ? "...'" : "'");
}

class Parser {
 public:
  explicit Parser(const ByteSource& file) : name_(file.name()) {
    found_.tokens.reserve(static_cast<std::size_t>(file.size() / kUsualBytesPerToken) + 1);
  }

  // Adds whole lines. The last one may lack its line break.
  void add(std::string_view text) {
    while (!text.empty()) {
      const std::string_view line = take_line(text);
      ++number_;
      check_length(line.size());
      if (number_ == 1) {
        read_header(line);
      } else {
        read_line(line);
      }
    }
  }
  // Checks the length of a line that has not ended yet, after the lines that were added.
  void check_unfinished(std::size_t length) {
    ++number_;
    check_length(length);
    --number_;
  }
  LabelledSequences finish() {
    if (found_.size() == 0) throw DataError(cat(name_, ": holds no sequences"));
    return std::move(found_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(cat(name_, ":", number_, ": ", what));
  }
  void check_length(std::size_t length) const {
    if (length > kMaxLineBytes) fail(cat("the line has more than ", kMaxLineBytes, " bytes"));
  }
  void read_header(std::string_view line) const {
    if (line == kHeader) return;
    fail(cat("the first line must be 'Source', a tab and 'Target', not ", shown(line)));
  }
  void read_line(std::string_view line) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) fail("there is no tab between source and target");
    const std::size_t begin = found_.tokens.size();
    read_source(line.substr(0, tab));
    if (const char* fault = fault_of(std::span(found_.tokens).subspan(begin))) {
      fail(cat("the source ", fault));
    }
    found_.ends.push_back(found_.tokens.size());
    found_.labels.push_back(read_target(line.substr(tab + 1)));
  }
  void read_source(std::string_view source) {
    const char *at = source.data(), *const end = at + source.size();
    for (;;) {
      while (at != end && is_filler(*at)) ++at;
      if (at == end) return;
      const char* const word = at;
      while (at != end && !is_filler(*at)) ++at;
      const Token token = token_of({word, at});
      if (token == 0) fail(cat("unknown word ", shown({word, at})));
      found_.tokens.push_back(token);
    }
  }
  std::int64_t read_target(std::string_view target) const {
    const Token token = target.size() == 1 ? token_of(target) : Token{0};
    if (!is_digit(token)) fail(cat("the target must be a digit, not ", shown(target)));
    return digit_of(token);
  }

  std::string name_;
  std::int64_t number_ = 0;  // line number, from 1 on
  LabelledSequences found_;
};

}  // namespace

LabelledSequences read_sequences(const ByteSource& file) {
  Parser parser(file);
  std::string held;  // lines; the last one may be incomplete
  for (std::int64_t offset = 0; offset < file.size();) {
    const std::int64_t left = file.size() - offset;
    const std::size_t take = std::min(kBlockBytes, static_cast<std::size_t>(left));
    const std::size_t before = held.size();
    held.resize(before + take);
    file.read(offset, std::as_writable_bytes(std::span(held).subspan(before)));
    offset += static_cast<std::int64_t>(take);
    const std::size_t whole = offset == file.size() ? held.size() : held.rfind('\n') + 1;
    parser.add(std::string_view(held).substr(0, whole));
    held.erase(0, whole);
    parser.check_unfinished(held.size());
  }
  return parser.finish();
}

}  // namespace dtn::listops
