// Reading gzip data (RFC 1952) that is not trusted: it is inflated piece by piece, as far as the
// caller asks, so that a small file cannot fill the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtn {

// Whether the bytes begin as a gzip file does.
bool is_gzip(std::span<const std::byte> bytes);

// The most that `compressed` bytes of deflate data can hold (its ratio is at most 1032 : 1).
std::uint64_t max_inflated_bytes(std::size_t compressed);

// Inflates from memory, which must outlive the reader. Members that follow each other count as one,
// zero bytes behind the last are ignored. `name` is what errors call the data.
class GzipReader {
 public:
  GzipReader(std::span<const std::byte> compressed, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  // Fills `out`; the result is smaller only at the end of the data. Throws DataError when the data
  // is cut short, damaged (checksums are verified) or followed by something else.
  std::size_t read(std::span<std::byte> out);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

// The content of a gzip file. DataError when it would be larger than `max_bytes`, or see above.
std::vector<std::byte> read_gzip_file(const std::string& path, std::int64_t max_bytes);

}  // namespace dtn
