// The bytes of a file, as an iterator for the JSON parser. Private to record_reader.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "dtn/core/check.h"
#include "io/file.h"

namespace dtn::coco {

// Reads a file block by block.
class JsonBytes {
 public:
  explicit JsonBytes(const ByteSource& file) : file_(file) {}
  JsonBytes(const JsonBytes&) = delete;
  JsonBytes& operator=(const JsonBytes&) = delete;

  bool at_end() { return at_ == end_ && !fill(); }
  char current() const { return *at_; }
  void advance() { ++at_; }
  // Number of bytes that are behind.
  std::int64_t position() const { return filled_ - (end_ - at_); }

 private:
  static constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

  // Returns false at the end of the file.
  bool fill() {
    const std::int64_t take = std::min(kBlockBytes, file_.size() - filled_);
    if (take == 0) return false;
    block_.resize(static_cast<std::size_t>(take));
    file_.read(filled_, std::as_writable_bytes(std::span(block_)));
    // The parser would take a zero byte for the end of the file.
    if (const void* zero = std::memchr(block_.data(), 0, block_.size())) {
      const auto byte = filled_ + (static_cast<const char*>(zero) - block_.data());
      throw DataError(cat(file_.name(), ": not JSON, or damaged: byte ", byte, " is 0"));
    }
    filled_ += take;
    at_ = block_.data();
    end_ = at_ + take;
    return true;
  }

  const ByteSource& file_;
  std::vector<char> block_;
  const char *at_ = nullptr, *end_ = nullptr;
  std::int64_t filled_ = 0;  // bytes that were read
};

// Input iterator over JsonBytes. All copies move together; the default one is the end.
class JsonByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  JsonByteIterator() = default;
  explicit JsonByteIterator(JsonBytes& bytes) : bytes_(&bytes) {}

  char operator*() const { return bytes_->current(); }
  JsonByteIterator& operator++() {
    bytes_->advance();
    return *this;
  }
  JsonByteIterator operator++(int) {
    bytes_->advance();
    return *this;
  }
  // Compares with the end.
  friend bool operator==(const JsonByteIterator& a, const JsonByteIterator&) {
    return a.bytes_->at_end();
  }

 private:
  JsonBytes* bytes_ = nullptr;
};

}  // namespace dtn::coco
