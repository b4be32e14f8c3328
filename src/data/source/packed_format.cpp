#include "data/source/packed_format.h"

#include <bit>
#include <cstring>
#include <span>

#include "dtn/core/check.h"
#include "io/crc32c.h"
#include "io/cursor.h"

namespace dtn::packed {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw DataError(cat(name, ": ", what, "; pack the data again, or copy the file again"));
}

PackedHeader read_header(const ByteSource& file) {
  PackedHeader header;
  const std::string& name = file.name();
  const auto size = static_cast<std::uint64_t>(file.size());
  if (size < sizeof header) fail(name, "is too short to be a packed file");
  file.read(0, std::as_writable_bytes(std::span(&header, 1)));
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) fail(name, "is not a packed file");
  if (header.version != kOneLabel && header.version != kAnyLabels) {
    fail(name, cat("has version ", header.version,
                   " of the format, but this program reads version 1 and 2"));
  }
  if (header.header_crc != header_checksum(header)) fail(name, "has a damaged header");
  if (header.file_bytes != size) {
    fail(name, cat("has ", size, " bytes, but its header says ", header.file_bytes));
  }
  return header;
}

// Splits names that each end with a zero byte.
std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    if (end == text.npos) return {};
    names.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return names;
}

void check_entries(const PackedIndex& index, const PackedHeader& header, const std::string& name) {
  std::uint64_t record_at = sizeof(PackedHeader), name_at = 0;
  for (const PackedEntry& entry : index.entries) {
    const bool fits = entry.bytes <= kMaxRecordBytes && entry.label < header.num_classes &&
                      entry.name_bytes <= header.names_bytes - name_at;
    if (!fits || entry.at != record_at || entry.name_at != name_at) {
      fail(name, cat("has a wrong entry for record ", &entry - index.entries.data()));
    }
    record_at += entry.bytes;  // no overflow: at most 2^30 per entry of the file
    name_at += entry.name_bytes;
  }
  if ((record_at + 7) / 8 * 8 != header.index_at || name_at != header.names_bytes) {
    fail(name, "has an index that does not cover its records");
  }
}

// Returns labels [records, classes] of the bits of the section.
Tensor unpacked_labels(std::string_view bits, std::size_t records, std::size_t classes) {
  const std::size_t row_bytes = label_bytes(classes);
  std::vector<std::uint8_t> values(records * classes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t k = i % classes;
    values[i] = static_cast<std::uint8_t>(bits[i / classes * row_bytes + k / 8] >> (k % 8) & 1);
  }
  return Tensor::from(values,
                      {static_cast<std::int64_t>(records), static_cast<std::int64_t>(classes)});
}

}  // namespace

std::string packed_labels(const Tensor& labels) {
  const std::span<const std::uint8_t> values = labels.values<std::uint8_t>();
  const auto classes = static_cast<std::size_t>(labels.dim(1));
  const std::size_t row_bytes = label_bytes(classes);
  std::string bits(values.size() / classes * row_bytes, '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t k = i % classes;
    char& byte = bits[i / classes * row_bytes + k / 8];
    byte = static_cast<char>(byte | values[i] << (k % 8));
  }
  return bits;
}

std::uint32_t header_checksum(PackedHeader header) {
  header.header_crc = 0;
  return crc32c(std::as_bytes(std::span(&header, 1)));
}

PackedIndex read_packed_index(const ByteSource& file) {
  const PackedHeader header = read_header(file);
  const std::string& name = file.name();
  // Each size is checked against the rest of the file, so no sum can overflow.
  const auto size = static_cast<std::uint64_t>(file.size());
  const auto inside = [&](std::uint64_t at, std::uint64_t count, std::uint64_t each) {
    return at <= size && count <= (size - at) / each;
  };
  const std::uint64_t strings_at = header.index_at + header.num_records * sizeof(PackedEntry);
  const std::uint64_t classes_at = strings_at + header.names_bytes;
  const std::uint64_t labels_at = classes_at + header.classes_bytes;
  const std::uint64_t row_bytes =
      header.version == kAnyLabels ? label_bytes(header.num_classes) : 0;
  if (header.index_at % 8 != 0 || header.index_at < sizeof header ||
      !inside(header.index_at, header.num_records, sizeof(PackedEntry)) ||
      !inside(strings_at, header.names_bytes, 1) || !inside(classes_at, header.classes_bytes, 1) ||
      header.num_classes > static_cast<std::uint64_t>(kMaxClasses) ||
      (row_bytes > 0 && !inside(labels_at, header.num_records, row_bytes)) ||
      size - labels_at != header.num_records * row_bytes) {
    fail(name, "has a header that does not match its size");
  }
  PackedIndex index;
  index.entries.resize(header.num_records);
  index.strings.resize(labels_at - strings_at);
  std::string labels(size - labels_at, '\0');
  const auto entries = std::as_writable_bytes(std::span(index.entries));
  const auto strings = std::as_writable_bytes(std::span(index.strings));
  file.read(static_cast<std::int64_t>(header.index_at), entries);
  file.read(static_cast<std::int64_t>(strings_at), strings);
  file.read(static_cast<std::int64_t>(labels_at), std::as_writable_bytes(std::span(labels)));
  if (crc32c(entries) != header.index_crc) fail(name, "has a damaged index");
  if (crc32c(strings) != header.strings_crc) fail(name, "has damaged names");
  if (!labels.empty() && crc32c(as_bytes_of(labels)) != header.labels_crc) {
    fail(name, "has damaged labels");
  }
  index.num_classes = static_cast<std::int64_t>(header.num_classes);
  index.class_names = split_names(std::string_view(index.strings).substr(header.names_bytes));
  if (header.classes_bytes > 0 && index.class_names.size() != header.num_classes) {
    fail(name, "does not have one name for each class");
  }
  check_entries(index, header, name);
  if (header.version == kAnyLabels) {
    index.labels = unpacked_labels(labels, index.entries.size(), header.num_classes);
  }
  return index;
}

}  // namespace dtn::packed
