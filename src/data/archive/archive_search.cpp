#include "data/archive/archive_search.h"

#include <algorithm>
#include <tuple>

#include "data/source/image_names.h"
#include "dtn/core/check.h"

namespace dtn {

void PassedOver::add(const TarReader& reader) {
  if (members == 0) first = reader.first_skipped();
  members += reader.skipped();
}

void PassedOver::add(const PassedOver& other) {
  if (members == 0) first = other.first;
  members += other.members;
  files.add(other.files);
}

std::string PassedOver::remark(const std::string& where) const {
  if (members == 0) return files.warning(where);
  LeftOut all = files;
  all.add(cat("member that is not a regular file (", first, ")"),
          cat("members that are not regular files (", first, ")"), members);
  return all.warning(where);
}

ArchiveIndex find_images(const ByteSource& archive, std::uint32_t number, std::int64_t begin,
                         std::int64_t end, PassedOver& passed_over) {
  ArchiveIndex index;
  TarReader reader(archive, begin, end);
  for (TarMember member; reader.next(member);) {
    if (is_hidden_path(member.name)) continue;
    if (is_image_name(member.name)) {
      index.add(number, -1, member.offset, member.size, member.name);
    } else {
      passed_over.files.add_file(member.name);
    }
  }
  passed_over.add(reader);
  sort_images(index);
  // Keeps the last of several images with the same name.
  std::vector<ArchiveIndex::Image>& images = index.images;
  const auto same = [&](const auto& a, const auto& b) { return index.name(a) == index.name(b); };
  const auto kept = std::unique(images.rbegin(), images.rend(), same);
  images.erase(images.begin(), kept.base());
  return index;
}

void sort_images(ArchiveIndex& index) {
  std::ranges::sort(index.images, [&](const auto& a, const auto& b) {
    if (a.label != b.label) return a.label < b.label;
    const std::string_view name_a = index.name(a), name_b = index.name(b);
    if (name_a != name_b) return comes_before(name_a, name_b);
    return std::tie(a.archive, a.offset) < std::tie(b.archive, b.offset);
  });
}

}  // namespace dtn
