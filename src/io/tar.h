// Where the files of a tar archive lie, so that they can be read in place. Nothing is ever
// extracted.
//
// Reads the ustar, pax and GNU formats and the older one without a magic (POSIX.1-2017, "pax
// interchange format"; GNU tar manual, appendix "Tar Internals"). Archives are not trusted: a bad
// checksum, a content that reaches beyond the end, headers that contradict themselves and an
// archive without its end mark are a DataError with file, offset and member. What is well-formed
// but no plain file is passed over and counted: links, devices, sparse files, and files whose name
// is absolute, climbs out with "..", or holds control characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/byte_source.h"

namespace dtn {

struct TarMember {
  std::string name;         // relative, without a leading "./"
  std::int64_t offset = 0;  // of its content in the source
  std::int64_t size = 0;    // bytes; the content lies inside the source
};

class TarReader {
 public:
  // Reads the archive that is the bytes [begin, end) of `source`, which must outlive it: a whole
  // file, or one archive within another.
  explicit TarReader(const ByteSource& source) : TarReader(source, 0, source.size()) {}
  TarReader(const ByteSource& source, std::int64_t begin, std::int64_t end);

  // The next plain file; false behind the last.
  bool next(TarMember& member);

  std::int64_t position() const { return at_; }      // in the source, for those who show progress
  std::int64_t skipped() const { return skipped_; }  // members passed over; folders do not count
  const std::string& first_skipped() const { return first_skipped_; }  // and why

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
  std::int64_t header_at_ = 0;  // of the header under way
  std::int64_t skipped_ = 0;
  bool finished_ = false;
  std::string first_skipped_;
};

// A name fit for a message: shortened, with '?' for control characters.
std::string printable(const std::string& name);

}  // namespace dtn
