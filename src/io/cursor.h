// Reads and writes little-endian binary records piece by piece.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "dtn/core/check.h"

namespace dtn {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

// Reads untrusted bytes. A read past the end throws DataError with the name and the offset.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string name)
      : bytes_(bytes), name_(std::move(name)) {}

  std::size_t position() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

  std::span<const std::byte> take_bytes(std::size_t size) {
    if (size > left()) {
      fail(cat("is cut short: ", size, " more bytes are expected, but ", left(), " are left"));
    }
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  std::string_view take_text(std::size_t size) {
    const auto bytes = take_bytes(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <class T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(cat(name_, ": at byte ", at_, ": ", what));
  }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  std::size_t at_ = 0;
};

template <class T>
void put(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace dtn
