// The packed file: all images of a split, concatenated, with an index.
//
//   header    PackedHeader
//   records   the bytes of image files, without gaps, in the order of the data set
//   (zeros up to a multiple of 8)
//   index     PackedEntry for each record
//   names     names of the records, without gaps; PackedEntry has the place of each
//   classes   names of the classes in label order, each ended by a zero byte; may be empty
//   labels    version 2: for each record a bit for each class, the first in the lowest bit of the
//             first byte, in whole bytes; PackedEntry::label is 0
//
// Version 1 has one label for each record, version 2 any number.
//
// Numbers are little-endian. The sections follow each other without other gaps and end with the
// file. The header therefore fixes the place of everything, and records cannot overlap. Header,
// index and strings have their own CRC-32C checksums. Every record has one in its entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtn/core/tensor.h"
#include "io/file.h"

namespace dtn::packed {

inline constexpr char kMagic[8] = {'D', 'T', 'N', 'P', 'A', 'C', 'K', '\n'};
inline constexpr std::uint32_t kOneLabel = 1, kAnyLabels = 2;  // versions
inline constexpr std::uint32_t kMaxRecordBytes = 1u << 30;
inline constexpr std::int64_t kMaxClasses = 1'000'000;

struct PackedHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_crc;  // header's checksum with 0 in this field
  std::uint64_t file_bytes;
  std::uint64_t num_records;
  std::uint64_t num_classes;
  std::uint64_t index_at;
  std::uint64_t names_bytes;
  std::uint64_t classes_bytes;
  std::uint32_t index_crc;
  std::uint32_t strings_crc;  // names and classes
  std::uint32_t labels_crc;
  std::uint8_t reserved[52];  // zeros
};
static_assert(sizeof(PackedHeader) == 128);

struct PackedEntry {
  std::uint64_t at;       // offset of the record in the file
  std::uint64_t name_at;  // offset in the names
  std::uint32_t bytes;
  std::uint32_t crc;
  std::uint32_t label;
  std::uint32_t name_bytes;
};
static_assert(sizeof(PackedEntry) == 32);

std::uint32_t header_checksum(PackedHeader header);
// Returns the bytes of a record in the section of labels.
inline std::uint64_t label_bytes(std::uint64_t num_classes) { return (num_classes + 7) / 8; }
// Returns the section of labels for labels [records, classes] uint8.
std::string packed_labels(const Tensor& labels);

// Contents of a packed file without the records, in memory.
struct PackedIndex {
  std::vector<PackedEntry> entries;
  std::string strings;                   // names of the records, then of the classes
  std::vector<std::string> class_names;  // none, or one for each class
  std::int64_t num_classes = 0;
  Tensor labels{};  // version 2: [records, num_classes] uint8, see Dataset::ready_fields()

  std::string_view name(const PackedEntry& entry) const {
    return std::string_view(strings).substr(static_cast<std::size_t>(entry.name_at),
                                            entry.name_bytes);
  }
};

// Reads and checks all but the records. The file is not trusted: DataError names it and the fault.
PackedIndex read_packed_index(const ByteSource& file);

}  // namespace dtn::packed
