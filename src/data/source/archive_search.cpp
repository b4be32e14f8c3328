#include "data/source/archive_search.h"

#include <algorithm>
#include <tuple>

#include "data/source/image_names.h"
#include "dtn/core/check.h"

namespace dtn {

void LeftOut::add(const TarReader& reader) {
  if (members == 0) first = reader.first_skipped();
  members += reader.skipped();
}

void LeftOut::add(const LeftOut& other) {
  if (members == 0) first = other.first;
  members += other.members;
  undecodable += other.undecodable;
}

std::string LeftOut::remark(const std::string& where) const {
  std::string text;
  if (members > 0) {
    text = cat(where, ": left out ", members, " members that are no plain files (", first, ")");
  }
  if (undecodable > 0) {
    text += cat(text.empty() ? where + ":" : std::string(";"), " left out ", undecodable,
                " images in formats that cannot be read (.tif and .tiff)");
  }
  return text;
}

ArchiveIndex find_images(const ByteSource& archive, std::uint32_t number, std::int64_t begin,
                         std::int64_t end, LeftOut& left_out) {
  ArchiveIndex index;
  TarReader reader(archive, begin, end);
  for (TarMember member; reader.next(member);) {
    if (is_hidden_path(member.name)) continue;
    const NameKind kind = kind_of_name(member.name);
    if (kind == NameKind::kImage) index.add(number, -1, member.offset, member.size, member.name);
    if (kind == NameKind::kUndecodable) ++left_out.undecodable;
  }
  left_out.add(reader);
  sort_images(index);
  // Of equals the last stays.
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
