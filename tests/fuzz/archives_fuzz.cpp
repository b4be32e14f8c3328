// Fuzzes tar archives, their stored indexes, packed files and the labels of ILSVRC2012 and of
// shards. For any bytes, reading gives an error or positions inside the file. The first byte
// selects the format.
// Checksums are corrected, because otherwise no damaged file would pass them.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "archives.h"
#include "data/archive/archive_index.h"
#include "data/archive/ilsvrc_devkit.h"
#include "data/archive/shard_labels.h"
#include "data/source/packed_format.h"
#include "dtn/core/check.h"
#include "io/crc32c.h"
#include "io/cursor.h"
#include "io/tar.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void read_tar(std::string text) {
  for (std::size_t at = 0; at + 512 <= text.size(); at += 512) {
    dtn::test::TarFile::Header header;
    std::memcpy(header.data(), &text[at], header.size());
    if (header[511] != 0) continue;  // content
    dtn::test::TarFile::set_checksum(header);
    std::memcpy(&text[at], header.data(), header.size());
  }
  dtn::MemorySource source(bytes_of(text), "fuzz");
  dtn::TarReader reader(source);
  std::int64_t before = 0;
  for (dtn::TarMember m; reader.next(m);) {
    require(m.size >= 0 && m.offset >= before + 512 && m.offset <= source.size() - m.size);
    require(!m.name.empty() && m.name.front() != '/' && m.name.find('\0') == m.name.npos);
    require(("/" + m.name + "/").find("/../") == std::string::npos);
    before = m.offset + m.size - 512;
  }
}

void read_packed(std::string text) {
  dtn::packed::PackedHeader h;
  if (text.size() < sizeof h) return;
  std::memcpy(&h, text.data(), sizeof h);
  std::memcpy(h.magic, dtn::packed::kMagic, sizeof h.magic);
  h.version = h.version % 2 == 0 ? dtn::packed::kAnyLabels : dtn::packed::kOneLabel;
  h.file_bytes = text.size();
  const std::size_t strings_at = h.index_at + h.num_records * sizeof(dtn::packed::PackedEntry);
  if (h.index_at <= strings_at && strings_at <= text.size()) {
    const auto all = bytes_of(text);
    h.index_crc = dtn::crc32c(all.subspan(h.index_at, strings_at - h.index_at));
    const std::size_t labels_at = strings_at + h.names_bytes + h.classes_bytes;
    if (strings_at <= labels_at && labels_at <= text.size()) {
      h.strings_crc = dtn::crc32c(all.subspan(strings_at, labels_at - strings_at));
      h.labels_crc = dtn::crc32c(all.subspan(labels_at));
    }
  }
  h.header_crc = dtn::packed::header_checksum(h);
  std::memcpy(text.data(), &h, sizeof h);
  dtn::MemorySource source(bytes_of(text), "fuzz");
  const dtn::packed::PackedIndex index = dtn::packed::read_packed_index(source);
  for (const auto& e : index.entries) {
    require(e.at <= text.size() && e.bytes <= text.size() - e.at && e.label < index.num_classes);
    require(index.name(e).size() == e.name_bytes);
  }
}

void read_index(std::string text) {
  dtn::put(text, dtn::crc32c(bytes_of(text)));
  const std::vector<std::int64_t> sizes = {1000, 50};
  const auto index = dtn::parse_archive_index(bytes_of(text), "fuzz", "k", "i", sizes);
  for (const auto& image : index.images) {
    require(image.offset + image.size <= static_cast<std::uint64_t>(sizes[image.archive]));
    require(index.name(image).size() == image.name_size);
    if (!index.lists.empty()) require(static_cast<std::size_t>(image.label) < index.lists.size());
  }
}

void read_labels(const std::string& text) {
  for (std::int32_t c : dtn::parse_ilsvrc_labels(bytes_of(text), "fuzz")) {
    require(0 <= c && c < 1000);
  }
}

void read_json(const std::string& text) {
  for (const dtn::ShardLabel& label : dtn::parse_json_labels(text)) {
    require(!label.text.empty());
    require(!label.is_number || dtn::label_number(label.text).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 5) {
      case 0: read_tar(text); break;
      case 1: read_packed(text); break;
      case 2: read_index(text); break;
      case 3: read_json(text); break;
      default: read_labels(text);
    }
  } catch (const dtn::DataError&) {
  }
  return 0;
}
