#include "data/table/csv.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/format.h"
#include "data/source/image_names.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 18;
constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 20;
constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr std::string_view kUtf16Marks[] = {"\xff\xfe", "\xfe\xff"};

std::span<std::byte> bytes_of(char* text, std::size_t size) {
  return std::as_writable_bytes(std::span(text, size));
}

}  // namespace

CsvReader::CsvReader(const ByteSource& file, char delimiter) : file_(file), delimiter_(delimiter) {
  fill();
  skip_byte_order_mark();
}

void CsvReader::fail_at(std::int64_t line, const std::string& what) const {
  throw DataError(cat(file_.name(), ":", line, ": ", what));
}

void CsvReader::skip_byte_order_mark() {
  const std::string_view text = buffer_;
  for (const std::string_view mark : kUtf16Marks) {
    if (text.starts_with(mark)) fail("the text is in UTF-16; save the file as UTF-8");
  }
  if (text.starts_with(kUtf8Mark)) begin_ = at_ = kUtf8Mark.size();
}

// Drops the finished records and reads another block. Returns false at the end of the file.
bool CsvReader::fill() {
  buffer_.erase(0, begin_);
  begin_ = at_ = 0;
  const auto left = static_cast<std::size_t>(file_.size() - read_);
  const std::size_t wanted = std::min(left, kBlockBytes);
  if (wanted == 0) return false;
  if (buffer_.size() > kMaxRecordBytes) {
    fail(cat("the record has more than ", bytes_text(double{kMaxRecordBytes}),
             "; is a quote not closed?"));
  }
  const std::size_t before = buffer_.size();
  buffer_.resize(before + wanted);
  file_.read(read_, bytes_of(buffer_.data() + before, wanted));
  read_ += static_cast<std::int64_t>(wanted);
  return true;
}

bool CsvReader::next() {
  for (;;) {
    begin_ = at_;
    line_ = next_line_;
    if (begin_ == buffer_.size() && !fill()) return false;
    while (scan_record() == Scan::kNeedsMore) {
      fill();
      next_line_ = line_;
    }
    const bool empty = fields_.size() == 1 && fields_[0].text.empty() && !fields_[0].quoted;
    if (empty) continue;
    remove_doubled_quotes();
    return true;
  }
}

// Scans a record and its line break. At the end of the file no line break is needed.
CsvReader::Scan CsvReader::scan_record() {
  fields_.clear();
  doubled_.clear();
  for (;;) {
    if (scan_field(fields_.emplace_back()) == Scan::kNeedsMore) return Scan::kNeedsMore;
    if (at_ == buffer_.size()) return Scan::kRecord;
    if (buffer_[at_] != delimiter_) return end_line(next_line_);
    ++at_;
  }
}

CsvReader::Scan CsvReader::scan_field(CsvField& field) {
  const bool ended = read_ == file_.size();
  if (at_ < buffer_.size() && buffer_[at_] == '"') return scan_quoted(field);
  const Scan result = scan_plain(field);
  // The next byte decides if the field ends here.
  return at_ == buffer_.size() && !ended ? Scan::kNeedsMore : result;
}

CsvReader::Scan CsvReader::scan_plain(CsvField& field) {
  const std::size_t start = at_;
  for (; at_ < buffer_.size(); ++at_) {
    const char c = buffer_[at_];
    if (c == delimiter_ || c == '\n' || c == '\r') break;
    if (c == '\0') fail_at(next_line_, "the text has a byte 0; save the file as UTF-8");
    if (c != '"') continue;
    fail_at(next_line_,
            "a quote stands inside a field that does not begin with one; put the field in quotes "
            "and double the quotes in it");
  }
  field = {std::string_view(buffer_).substr(start, at_ - start), false};
  return Scan::kRecord;
}

CsvReader::Scan CsvReader::scan_quoted(CsvField& field) {
  const bool ended = read_ == file_.size();
  const std::int64_t opened = next_line_;
  const std::size_t start = ++at_;
  for (;;) {
    if (at_ == buffer_.size()) {
      if (!ended) return Scan::kNeedsMore;
      fail_at(opened, "a quote opens here and is not closed");
    }
    const char c = buffer_[at_];
    if (c == '"') {
      if (at_ + 1 == buffer_.size() && !ended) return Scan::kNeedsMore;
      if (at_ + 1 == buffer_.size() || buffer_[at_ + 1] != '"') break;
      if (doubled_.empty() || doubled_.back() != fields_.size() - 1) {
        doubled_.push_back(fields_.size() - 1);
      }
      at_ += 2;
    } else if (c == '\n' || c == '\r') {
      if (end_line(next_line_) == Scan::kNeedsMore) return Scan::kNeedsMore;
    } else if (c == '\0') {
      fail_at(next_line_, "the text has a byte 0; save the file as UTF-8");
    } else {
      ++at_;
    }
  }
  field = {std::string_view(buffer_).substr(start, at_ - start), true};
  ++at_;
  if (at_ < buffer_.size() && buffer_[at_] != delimiter_ && buffer_[at_] != '\n' &&
      buffer_[at_] != '\r') {
    fail_at(next_line_, "there is text behind a closing quote; double the quotes inside a field");
  }
  return Scan::kRecord;
}

// Passes over a line break and counts it.
CsvReader::Scan CsvReader::end_line(std::int64_t& lines) {
  const bool ended = read_ == file_.size();
  if (buffer_[at_] == '\r') {
    if (at_ + 1 == buffer_.size() && !ended) return Scan::kNeedsMore;
    if (at_ + 1 < buffer_.size() && buffer_[at_ + 1] == '\n') ++at_;
  }
  ++at_;
  ++lines;
  return Scan::kRecord;
}

// The fields lie in the buffer, where the shorter text takes the place of the longer one.
void CsvReader::remove_doubled_quotes() {
  for (const std::size_t i : doubled_) {
    std::string_view& text = fields_[i].text;
    char* const first = buffer_.data() + (text.data() - buffer_.data());
    char* to = first;
    for (const char *from = first, *end = first + text.size(); from != end; ++from) {
      *to++ = *from;
      if (*from == '"') ++from;
    }
    text = {first, static_cast<std::size_t>(to - first)};
  }
}

char delimiter_of(const ByteSource& file) {
  const std::string ending = lower_ending(file.name());
  if (ending == ".tsv" || ending == ".tab") return '\t';
  std::string text(std::min(static_cast<std::size_t>(file.size()), kBlockBytes), '\0');
  file.read(0, bytes_of(text.data(), text.size()));
  std::string outside;  // the first line without its quoted parts
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n' || c == '\r') break;
    outside += c;
  }
  const std::string_view order = ending == ".csv" ? ",;\t" : "\t,;";
  for (const char delimiter : order) {
    if (outside.find(delimiter) != outside.npos) return delimiter;
  }
  return ',';
}

std::string csv_field(std::string_view text) {
  const bool is_plain = text.find_first_of(",;\t\"\r\n") == text.npos && !text.starts_with(' ') &&
                        !text.ends_with(' ');
  if (is_plain) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + "\"";
}

}  // namespace dtn
