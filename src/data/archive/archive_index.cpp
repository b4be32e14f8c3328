#include "data/archive/archive_index.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "core/format.h"
#include "core/seconds_since.h"
#include "data/source/image_names.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "io/crc32c.h"
#include "io/cursor.h"
#include "io/file.h"
#include "io/gzip.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "DTNINDEX";
constexpr std::uint32_t kVersion = 3;  // grows when other files count as images
constexpr std::size_t kMaxHeld = 256;  // archives held open; a common limit of a process is 1024
constexpr std::int64_t kMaxIndexBytes = 1ll << 36;

void put_text(std::string& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  out += text;
}

std::string_view take_text(Cursor& in) {
  return in.take_text(static_cast<std::size_t>(in.take<std::uint64_t>()));
}

void put_labels(std::string& out, const ArchiveIndex& index) {
  put(out, std::uint64_t{index.classes.size()});
  for (const std::string& name : index.classes) put_text(out, name);
  put(out, std::uint64_t{index.lists.size()});
  for (const std::vector<std::int32_t>& list : index.lists) {
    put(out, std::uint64_t{list.size()});
    for (const std::int32_t label : list) put(out, label);
  }
}

// Returns the number of entries that follow, each of at least `bytes` bytes.
std::size_t take_count(Cursor& in, std::size_t bytes) {
  const auto count = in.take<std::uint64_t>();
  if (count > in.left() / bytes) in.fail("it is cut short");
  return static_cast<std::size_t>(count);
}

void take_labels(Cursor& in, ArchiveIndex& index) {
  index.classes.resize(take_count(in, sizeof(std::uint64_t)));
  for (std::string& name : index.classes) name = take_text(in);
  index.lists.resize(take_count(in, sizeof(std::uint64_t)));
  for (std::vector<std::int32_t>& list : index.lists) {
    list.resize(take_count(in, sizeof(std::int32_t)));
    for (std::int32_t& label : list) label = in.take<std::int32_t>();
  }
}

// Checks labels of images or of lists, of which there are `count` if that is not 0.
void check_label(std::int32_t label, std::size_t count, const Cursor& in) {
  if (label < 0 || (count > 0 && static_cast<std::size_t>(label) >= count)) {
    in.fail("a label is not among the classes");
  }
}

void check_image(const ArchiveIndex& index, const ArchiveIndex::Image& image, const Cursor& in,
                 std::span<const std::int64_t> sizes) {
  if (image.archive >= sizes.size()) in.fail("an image refers to an archive that does not exist");
  const auto bytes = static_cast<std::uint64_t>(sizes[image.archive]);
  if (image.size > bytes || image.offset > bytes - image.size) {
    in.fail("an image extends past the end of its archive");
  }
  if (image.name_at > index.names.size() || image.name_size > index.names.size() - image.name_at) {
    in.fail("the name of an image extends past the end of the names");
  }
  if (!index.lists.empty()) {
    check_label(image.label, index.lists.size(), in);
  } else if (!index.classes.empty()) {
    check_label(image.label, index.classes.size(), in);
  }
}

// Returns the places where an index may be kept, the best first.
std::vector<fs::path> places(const ArchiveSet& archives) {
  const fs::path first = fs::absolute(archives.path(0)).lexically_normal();
  std::string name = first.filename().string();
  if (archives.count() > 1) name += cat("+", archives.count() - 1);
  name += ".dtn-index";
  std::vector<fs::path> found = {first.parent_path() / name};
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (cache && *cache) {
    folder = fs::path(cache) / "dtn";
  } else if (home && *home) {
    folder = fs::path(home) / ".cache" / "dtn";
  }
  if (folder.is_absolute()) {
    const std::uint32_t where = crc32c(as_bytes_of(first.parent_path().string()));
    found.push_back(folder / (format("%08x-", where) + name));
  }
  return found;
}

// Writes the index to the first place that accepts it.
void keep(const std::string& bytes, const std::vector<fs::path>& where) {
  std::string reasons;
  for (const fs::path& path : where) {
    try {
      if (&path != &where.front()) fs::create_directories(path.parent_path());
      write_file_atomic(path, bytes);
      log_info(cat("saved the index to ", path.string()));
      return;
    } catch (const std::exception& e) {
      reasons += cat("\n  ", e.what());
    }
  }
  log_warn(
      cat("cannot save the index of the archives, so the next run searches them again:", reasons));
}

}  // namespace

void ArchiveIndex::add(Image image, std::string_view name) {
  image.name_at = names.size();
  image.name_size = static_cast<std::uint32_t>(name.size());
  images.push_back(image);
  names += name;
}

void ArchiveIndex::append(const ArchiveIndex& other) {
  for (const Image& image : other.images) add(image, other.name(image));
}

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

ArchiveIndex::Image image_at(const TarMember& member, std::uint32_t archive, std::int32_t label) {
  return {.offset = static_cast<std::uint64_t>(member.offset),
          .size = static_cast<std::uint64_t>(member.size),
          .archive = archive,
          .label = label};
}

ArchiveIndex find_images(const ByteSource& archive, std::uint32_t number, std::int64_t begin,
                         std::int64_t end, PassedOver& passed_over) {
  ArchiveIndex index;
  TarReader reader(archive, begin, end);
  for (TarMember member; reader.next(member);) {
    if (is_hidden_path(member.name)) continue;
    if (is_image_name(member.name)) {
      index.add(image_at(member, number), member.name);
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
    if (index.lists.empty() && a.label != b.label) return a.label < b.label;
    const std::string_view name_a = index.name(a), name_b = index.name(b);
    if (name_a != name_b) return comes_before(name_a, name_b);
    return std::tie(a.archive, a.offset) < std::tie(b.archive, b.offset);
  });
}

ArchiveSet::ArchiveSet(std::vector<std::string> paths) : paths_(std::move(paths)) {
  DTN_CHECK(!paths_.empty(), "no archives");
  for (const std::string& path : paths_) {
    auto file = std::make_shared<FileSource>(path);
    put_text(identity_, fs::path(path).filename().string());
    put(identity_, file->size());
    put(identity_, file->mtime_ns());
    total_bytes_ += file->size();
    std::byte magic[2] = {};
    file->read(0, std::span(magic).first(std::min<std::size_t>(2, file->size())));
    if (is_gzip(magic)) {
      throw DataError(cat(path, ": is compressed, so it cannot be read in place; gunzip it"));
    }
    file->expect_random_reads();
    if (paths_.size() <= kMaxHeld) held_.push_back(std::move(file));
  }
}

std::shared_ptr<const FileSource> ArchiveSet::open(std::size_t archive) const {
  return held_.empty() ? std::make_shared<FileSource>(paths_[archive]) : held_[archive];
}

void SearchProgress::add(std::int64_t done) {
  constexpr auto kEvery = std::chrono::seconds(5);
  const std::lock_guard lock(mutex_);
  done_ += done;
  const auto now = Clock::now();
  if (now - last_ < kEvery || done_ <= 0) return;
  last_ = now;
  const double fraction = static_cast<double>(done_) / static_cast<double>(total_);
  log_info(cat(what_, ": ", static_cast<int>(100 * fraction), " %, ",
               static_cast<std::int64_t>(seconds_since(start_) * (1 - fraction) / fraction),
               " s left"));
}

std::string write_archive_index(const ArchiveIndex& index, const std::string& kind,
                                const std::string& identity) {
  std::string out(kMagic);
  put(out, kVersion);
  put_text(out, kind);
  put_text(out, identity);
  put_text(out, index.remark);
  put_text(out, index.names);
  put_labels(out, index);
  put(out, std::uint64_t{index.images.size()});
  for (const ArchiveIndex::Image& image : index.images) put(out, image);
  put(out, crc32c(as_bytes_of(out)));
  return out;
}

ArchiveIndex parse_archive_index(std::span<const std::byte> bytes, const std::string& name,
                                 const std::string& kind, const std::string& identity,
                                 std::span<const std::int64_t> sizes) {
  Cursor in(bytes, name);
  if (in.take_text(kMagic.size()) != kMagic) in.fail("it is not an index");
  if (in.take<std::uint32_t>() != kVersion) in.fail("it is an index of another version");
  const std::size_t content = bytes.size() - std::min(bytes.size(), sizeof(std::uint32_t));
  std::uint32_t stored = 0;
  Cursor tail(bytes.subspan(content), name);
  stored = tail.take<std::uint32_t>();
  if (stored != crc32c(bytes.first(content))) in.fail("its checksum is wrong");
  if (take_text(in) != kind) in.fail("it is an index of another kind");
  if (take_text(in) != identity) in.fail("the archives have changed since it was made");
  ArchiveIndex index;
  index.remark = take_text(in);
  index.names = take_text(in);
  take_labels(in, index);
  for (const std::vector<std::int32_t>& list : index.lists) {
    for (const std::int32_t label : list) check_label(label, index.classes.size(), in);
  }
  index.images.resize(take_count(in, sizeof(ArchiveIndex::Image)));
  for (ArchiveIndex::Image& image : index.images) {
    image = in.take<ArchiveIndex::Image>();
    check_image(index, image, in, sizes);
  }
  if (in.left() != sizeof stored) in.fail("it has more bytes than it should");
  return index;
}

ArchiveIndex load_or_build_index(const ArchiveSet& archives, const std::string& kind,
                                 const std::function<ArchiveIndex(SearchProgress&)>& search) {
  const std::vector<fs::path> where = places(archives);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < archives.count(); ++i) sizes.push_back(archives.open(i)->size());
  for (const fs::path& path : where) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    try {
      return parse_archive_index(read_file(path.string(), kMaxIndexBytes), path.string(), kind,
                                 archives.identity(), sizes);
    } catch (const DataError& e) {
      log_info(cat("rebuilding the index: ", e.what()));
    }
  }
  const std::string what =
      cat("searching ", archives.path(0),
          archives.count() > 1 ? cat(" and ", archives.count() - 1, " more") : std::string());
  log_info(cat(what, " for images; this is done once"));
  SearchProgress progress(what, archives.total_bytes());
  ArchiveIndex index = search(progress);
  keep(write_archive_index(index, kind, archives.identity()), where);
  return index;
}

}  // namespace dtn
