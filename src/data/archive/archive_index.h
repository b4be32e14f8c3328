// Index of a set of tar archives: the place of each image, found by a search. It is kept in a file,
// so that the archives are searched only once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/source/image_names.h"
#include "io/file.h"
#include "io/tar.h"

namespace dtn {

class ArchiveIndex {
 public:
  struct Image {
    std::uint64_t offset = 0, size = 0;  // bytes; content in its archive
    std::uint64_t name_at = 0;           // position in `names`
    std::uint32_t name_size = 0;
    std::uint32_t archive = 0;  // number of the archive
    std::int32_t label = -1;    // -1: not known from the archive; see `lists`
    std::uint32_t reserved = 0;
  };
  static_assert(sizeof(Image) == 40);

  std::vector<Image> images;
  // All names, concatenated. A million strings would take several times the memory.
  std::string names;
  // Names of the classes in the order of their labels. Empty: labels are numbers.
  std::vector<std::string> classes;
  // If images have any number of labels: the different lists of labels, each ascending. The label
  // of an image is then the position of its list. Empty: each image has the label alone.
  std::vector<std::vector<std::int32_t>> lists;
  // Warning about skipped members of the archives, repeated in each run.
  std::string remark;

  // Adds an image under this name.
  void add(Image image, std::string_view name);
  // Adds the images of another index, but not its classes and lists.
  void append(const ArchiveIndex& other);
  std::string_view name(const Image& image) const {
    return std::string_view(names).substr(image.name_at, image.name_size);
  }
};

// Archives of one split, opened for reading in place.
class ArchiveSet {
 public:
  // Throws DataError if an archive cannot be opened or is compressed.
  explicit ArchiveSet(std::vector<std::string> paths);

  std::size_t count() const { return paths_.size(); }
  const std::string& path(std::size_t archive) const { return paths_[archive]; }
  std::int64_t total_bytes() const { return total_bytes_; }
  // Returns an archive. A small set is held open. The archives of a large set would use up the
  // files that the process may open, so each call then opens the archive for the caller.
  std::shared_ptr<const FileSource> open(std::size_t archive) const;
  // Names, sizes and modification times of the archives. An index is valid only for one identity.
  const std::string& identity() const { return identity_; }

 private:
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const FileSource>> held_;
  std::int64_t total_bytes_ = 0;
  std::string identity_;
};

// Members of archives that a search skips.
struct PassedOver {
  std::int64_t members = 0;  // number of members that are not plain files
  std::string first;         // name of the first one, and the reason
  LeftOut files;             // files that are not read

  void add(const TarReader& reader);
  void add(const PassedOver& other);
  std::string remark(const std::string& where) const;  // empty if nothing is reported
};

// Returns the entry of an image for an index.
ArchiveIndex::Image image_at(const TarMember& member, std::uint32_t archive,
                             std::int32_t label = -1);

// Returns the images of the tar in bytes [begin, end) of an archive, with their names in it. Hidden
// files are skipped. If two members have the same name, the later one counts, as after unpacking.
ArchiveIndex find_images(const ByteSource& archive, std::uint32_t number, std::int64_t begin,
                         std::int64_t end, PassedOver& passed_over);

// Sorts by label, unless images have any number, then like the files of an image folder, then by
// archive and offset.
void sort_images(ArchiveIndex& index);

// Logs the progress of a search every few seconds.
class SearchProgress {
 public:
  SearchProgress(std::string what, std::int64_t total) : what_(std::move(what)), total_(total) {}
  void add(std::int64_t done);  // thread-safe

 private:
  using Clock = std::chrono::steady_clock;
  const std::string what_;
  const std::int64_t total_;
  std::int64_t done_ = 0;
  Clock::time_point start_ = Clock::now(), last_ = start_;
  std::mutex mutex_;
};

// Returns the stored index of these archives. If there is none, calls `search` and stores its
// result: beside the first archive or, if that fails, in the user's cache folder. `kind` names the
// content of an index, so that an index of another kind is not used.
ArchiveIndex load_or_build_index(const ArchiveSet& archives, const std::string& kind,
                                 const std::function<ArchiveIndex(SearchProgress&)>& search);

// Convert an index to the bytes of a file and back. `identity` and `kind` are as above; `sizes` are
// the archives' sizes in bytes. The bytes are not trusted: parse_archive_index() throws DataError
// if they are damaged, point outside an archive, or have another kind or identity.
std::string write_archive_index(const ArchiveIndex& index, const std::string& kind,
                                const std::string& identity);
ArchiveIndex parse_archive_index(std::span<const std::byte> bytes, const std::string& name,
                                 const std::string& kind, const std::string& identity,
                                 std::span<const std::int64_t> sizes);

}  // namespace dtn
