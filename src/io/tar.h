// Finds the files of a tar archive, so that they can be read in place. Nothing is ever extracted.
//
// Supports the ustar, pax and GNU formats and the older format without a magic number
// (POSIX.1-2017, "pax interchange format"; GNU tar manual, appendix "Tar Internals"). Archives are
// not trusted. A bad checksum, content that reaches beyond the end, contradictory headers and a
// missing end mark throw DataError with the file, the offset and, where known, the member.
// Well-formed members that are not plain files are skipped and counted: links, devices, sparse
// files, and files whose name is absolute, climbs out with "..", or holds control characters.
#pragma once

#include <cstdint>
#include <string>

#include "io/file.h"

namespace dtn {

struct TarMember {
  std::string name;         // relative, without a leading "./"
  std::int64_t offset = 0;  // start of the content; bytes in the source
  std::int64_t size = 0;    // bytes; the content lies inside the source
};

class TarReader {
 public:
  // Reads the archive in bytes [begin, end) of `source`, which must outlive the reader. The archive
  // is a whole file, or lies inside another archive.
  explicit TarReader(const ByteSource& source) : TarReader(source, 0, source.size()) {}
  TarReader(const ByteSource& source, std::int64_t begin, std::int64_t end);

  // Finds the next plain file. Returns false after the last one.
  bool next(TarMember& member);

  std::int64_t position() const { return at_; }      // in the source, for progress reports
  std::int64_t skipped() const { return skipped_; }  // members; folders do not count
  const std::string& first_skipped() const { return first_skipped_; }  // name and reason

 private:
  struct Block;
  struct Extension;

  bool read_block(Block& block);
  bool read_member(TarMember& member, bool& found);
  void read_extension(const Block& block, Extension& extension);
  void parse_pax(const std::string& records, bool global, Extension& extension) const;
  void pass_sparse_maps(const Block& block);
  std::int64_t content_size(const Block& block, const Extension& extension) const;
  void pass_content(std::int64_t size);
  void skip(const std::string& name, const char* why);
  [[noreturn]] void fail(const std::string& what) const;

  const ByteSource& source_;
  std::int64_t at_, end_;
  std::int64_t header_at_ = 0;  // offset of the current header
  std::int64_t skipped_ = 0;
  bool finished_ = false;
  std::string first_skipped_;
};

// Returns a name for a message: shortened, with '?' for control characters.
std::string printable(const std::string& name);

}  // namespace dtn
