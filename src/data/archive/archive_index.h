// Index of a set of tar archives: the place of each image. It is kept in a file, so that the
// archives are searched only once.
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
    std::uint64_t offset = 0, size = 0;  // bytes; content in its archive
    std::uint64_t name_at = 0;           // position in `names`
    std::uint32_t name_size = 0;
    std::uint32_t archive = 0;  // number of the archive
    std::int32_t label = -1;    // -1: not known from the archive
    std::uint32_t reserved = 0;
  };
  static_assert(sizeof(Image) == 40);

  std::vector<Image> images;
  // All names, concatenated. A million strings would take several times the memory.
  std::string names;
  // Warning about skipped members of the archives, repeated in each run.
  std::string remark;

  void add(std::uint32_t archive, std::int32_t label, std::int64_t offset, std::int64_t size,
           std::string_view name);
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

// Logs the progress of a search every few seconds.
class SearchProgress {
 public:
  SearchProgress(std::string what, std::int64_t total);
  ~SearchProgress();
  void add(std::int64_t done);  // thread-safe

 private:
  struct State;
  std::unique_ptr<State> state_;
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
