// The index of a set of tar archives: where each image lies, kept in a file beside the archives so
// that they are searched only once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_source.h"

namespace dtn {

class ArchiveIndex {
 public:
  struct Image {
    std::uint64_t offset = 0, size = 0;  // of the content in its archive
    std::uint64_t name_at = 0;           // in names
    std::uint32_t name_size = 0;
    std::uint32_t archive = 0;  // number of the archive
    std::int32_t label = -1;    // -1: not known from the archive
    std::uint32_t reserved = 0;
  };
  static_assert(sizeof(Image) == 40);

  std::vector<Image> images;
  std::string names;  // one behind the other: a million strings would take several times the memory
  // What of the archives was passed over, to be told each time.
  std::string remark;

  void add(std::uint32_t archive, std::int32_t label, std::int64_t offset, std::int64_t size,
           std::string_view name);
  void append(const ArchiveIndex& other);
  std::string_view name(const Image& image) const {
    return std::string_view(names).substr(image.name_at, image.name_size);
  }
};

// The archives of one split, opened to be read in place.
class ArchiveSet {
 public:
  // DataError when one of them cannot be opened.
  explicit ArchiveSet(std::vector<std::string> paths);

  std::size_t count() const { return paths_.size(); }
  const std::string& path(std::size_t archive) const { return paths_[archive]; }
  std::int64_t total_bytes() const { return total_bytes_; }
  // The archive: one that is held open, or one that is opened for the caller when there are so many
  // that holding them all would use up the process's files.
  std::shared_ptr<const FileSource> open(std::size_t archive) const;
  // Names, sizes and times of the archives: an index is good for what it was made from.
  const std::string& identity() const { return identity_; }

 private:
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const FileSource>> held_;
  std::int64_t total_bytes_ = 0;
  std::string identity_;
};

// Tells how far a search is, a line now and then.
class SearchProgress {
 public:
  SearchProgress(std::string what, std::int64_t total);
  ~SearchProgress();
  void add(std::int64_t done);  // thread-safe

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The index that is kept for these archives, or else the one that `search` makes, which is then
// kept: beside the first archive, or, where that is not allowed, in the user's cache folder. `kind`
// names the meaning of an index, so that another kind is not taken for it.
ArchiveIndex load_or_build_index(const ArchiveSet& archives, const std::string& kind,
                                 const std::function<ArchiveIndex(SearchProgress&)>& search);

// The file's bytes and back. `identity` and `kind` as above; `sizes` are those of the archives. The
// bytes are not trusted: DataError when they are damaged, point outside, or are about other things.
std::string write_archive_index(const ArchiveIndex& index, const std::string& kind,
                                const std::string& identity);
ArchiveIndex parse_archive_index(std::span<const std::byte> bytes, const std::string& name,
                                 const std::string& kind, const std::string& identity,
                                 std::span<const std::int64_t> sizes);

}  // namespace dtn
