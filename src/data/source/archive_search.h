// What the searches of tar archives for images have in common.
#pragma once

#include <cstdint>
#include <string>

#include "data/source/archive_index.h"
#include "io/tar.h"

namespace dtn {

// Counts what a search passes over.
struct LeftOut {
  std::int64_t members = 0, undecodable = 0;
  std::string first;  // the first member that was passed over, and why

  void add(const TarReader& reader);
  void add(const LeftOut& other);
  std::string remark(const std::string& where) const;  // empty when there is nothing to tell
};

// The images of the tar that is the bytes [begin, end) of an archive, with their names in it;
// hidden files are left out, and of two members of one name the later counts, as when unpacked.
ArchiveIndex find_images(const ByteSource& archive, std::uint32_t number, std::int64_t begin,
                         std::int64_t end, LeftOut& left_out);

// Sorts by label, then as the files of an image folder, then by archive and place.
void sort_images(ArchiveIndex& index);

}  // namespace dtn
