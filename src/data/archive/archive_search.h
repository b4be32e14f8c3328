// Functions shared by the searches of tar archives for images.
#pragma once

#include <cstdint>
#include <string>

#include "data/archive/archive_index.h"
#include "data/source/left_out.h"
#include "io/tar.h"

namespace dtn {

// Members of archives that a search skips.
struct PassedOver {
  std::int64_t members = 0;  // number of members that are not plain files
  std::string first;         // name of the first one, and the reason
  LeftOut files;             // files that are not read

  void add(const TarReader& reader);
  void add(const PassedOver& other);
  std::string remark(const std::string& where) const;  // empty if nothing is reported
};

// Returns the images of the tar in bytes [begin, end) of an archive, with their names in it. Hidden
// files are skipped. If two members have the same name, the later one counts, as after unpacking.
ArchiveIndex find_images(const ByteSource& archive, std::uint32_t number, std::int64_t begin,
                         std::int64_t end, PassedOver& passed_over);

// Sorts by label, then like the files of an image folder, then by archive and offset.
void sort_images(ArchiveIndex& index);

}  // namespace dtn
