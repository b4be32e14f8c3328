// Reads untrusted gzip data (RFC 1952). The data is inflated piece by piece, only as far as the
// caller asks, so that a small file cannot fill the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtn {

// Returns true if the bytes begin with the magic number of gzip.
bool is_gzip(std::span<const std::byte> bytes);

// Returns the most bytes that `compressed` bytes of deflate data can hold (at most 1032 : 1).
std::uint64_t max_inflated_bytes(std::size_t compressed);

// Inflates from memory, which must outlive the reader. Consecutive members are read as one, and
// zero bytes after the last member are ignored. `name` is used in error messages.
class GzipReader {
 public:
  GzipReader(std::span<const std::byte> compressed, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  // Fills `out`. Returns the number of bytes written, less than out.size() only at the end of the
  // data. Throws DataError if the data is cut short, damaged (checksums are verified) or followed
  // by other bytes.
  std::size_t read(std::span<std::byte> out);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

// Returns the content of a gzip file. Throws DataError if the content is larger than `max_bytes`,
// if the file cannot be read, or as GzipReader::read() does.
std::vector<std::byte> read_gzip_file(const std::string& path, std::int64_t max_bytes);

}  // namespace dtn
