#include "apps/export/protobuf.h"

#include <bit>
#include <utility>

#include "dtn/core/check.h"

namespace dtn::protobuf {
namespace {

enum WireType { kVarint = 0, kLengthDelimited = 2, kFixed32 = 5 };

std::string encoded(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

}  // namespace

void Message::append(std::string_view bytes) {
  if (pieces_.empty() || pieces_.back().tensor.defined()) pieces_.emplace_back();
  pieces_.back().own += bytes;
  size_ += bytes.size();
}

void Message::varint(std::uint64_t value) { append(encoded(value)); }

void Message::key(int field, int wire_type) {
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type));
}

void Message::length(int field, std::uint64_t bytes) {
  key(field, kLengthDelimited);
  varint(bytes);
}

void Message::integer(int field, std::int64_t value) {
  key(field, kVarint);
  varint(static_cast<std::uint64_t>(value));  // negative values take ten bytes
}

void Message::number(int field, float value) {
  key(field, kFixed32);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) {
    const char byte = static_cast<char>(bits >> shift);
    append({&byte, 1});
  }
}

void Message::text(int field, std::string_view value) {
  length(field, value.size());
  append(value);
}

void Message::integers(int field, std::span<const std::int64_t> values) {
  std::string packed;
  for (std::int64_t value : values) packed += encoded(static_cast<std::uint64_t>(value));
  text(field, packed);
}

void Message::message(int field, Message part) {
  length(field, part.size());
  for (Piece& piece : part.pieces_) {
    if (!piece.tensor.defined()) {
      append(piece.own);
      continue;
    }
    size_ += piece.tensor.nbytes();
    pieces_.push_back(std::move(piece));
  }
}

void Message::tensor(int field, const Tensor& value) {
  DTN_CHECK(value.device() == kCpu, "a tensor to be written must lie in host memory");
  static_assert(std::endian::native == std::endian::little, "files are little-endian");
  length(field, value.nbytes());
  pieces_.push_back({"", value});
  size_ += value.nbytes();
}

void Message::write(const std::function<void(std::span<const std::byte>)>& sink) const {
  for (const Piece& piece : pieces_) {
    if (piece.tensor.defined()) {
      sink({static_cast<const std::byte*>(piece.tensor.raw()), piece.tensor.nbytes()});
    } else {
      sink(std::as_bytes(std::span(piece.own)));
    }
  }
}

}  // namespace dtn::protobuf
