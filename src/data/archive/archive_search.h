// What the searches of tar archives for images have in common.
#pragma once

#include <cstdint>
#include <string>

#include "data/archive/archive_index.h"
#include "data/source/left_out.h"
#include "io/tar.h"

namespace dtn {

// Members of archives that a search passes over.
struct PassedOver {
  std::int64_t members = 0;  // that are no plain files
  std::string first;         // the first of them, and why
  LeftOut files;             // that are not read

  void add(const TarReader& reader);
  void add(const PassedOver& other);
  std::string remark(const std::string& where) const;  // empty: nothing to tell
};

// The images of the tar that is the bytes [begin, end) of an archive, with their names in it;
// hidden files are left out, and of two members of one name the later counts, as when unpacked.
ArchiveIndex find_images(const ByteSource& archive, std::uint32_t number, std::int64_t begin,
                         std::int64_t end, PassedOver& passed_over);

// Sorts by label, then as the files of an image folder, then by archive and place.
void sort_images(ArchiveIndex& index);

}  // namespace dtn
