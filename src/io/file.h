// Reads files: whole, or with random access. Errors name the file and the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dtn {

// Throws DataError: "cannot read <name>: <reason>".
[[noreturn]] void fail_to_read(const std::string& name, const std::string& reason);

inline constexpr std::int64_t kDefaultMaxFileBytes = 1ll << 30;

// Returns the bytes of a regular file. Throws DataError if it is absent, not a regular file,
// unreadable or larger than `max_bytes`, or if it shrinks during the read.
std::vector<std::byte> read_file(const std::string& path,
                                 std::int64_t max_bytes = kDefaultMaxFileBytes);

// The same as text.
std::string read_text(const std::string& path, std::int64_t max_bytes = kDefaultMaxFileBytes);

// read_file() into `out`, whose memory is reused.
void read_file_into(const std::string& path, std::vector<std::byte>& out,
                    std::int64_t max_bytes = kDefaultMaxFileBytes);

// Byte sources with random access: a file, or memory. Immutable and safe to share between threads.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  const std::string& name() const { return name_; }  // for error messages
  std::int64_t size() const { return size_; }        // bytes, when it was opened

  // Fills `out` with the bytes from `offset` on. Throws DataError if some lie outside or are
  // unreadable.
  void read(std::int64_t offset, std::span<std::byte> out) const;

 protected:
  explicit ByteSource(std::string name, std::int64_t size = 0)
      : name_(std::move(name)), size_(size) {}
  virtual void read_inside(std::int64_t offset, std::span<std::byte> out) const = 0;

  std::string name_;
  std::int64_t size_;
};

// A regular file, read with pread: any number of threads may read at once.
class FileSource final : public ByteSource {
 public:
  // Throws DataError if the file is absent, is not a regular file or may not be read.
  explicit FileSource(const std::string& path);
  ~FileSource() override;

  std::int64_t mtime_ns() const { return mtime_ns_; }  // last change; ns since 1970
  int descriptor() const { return fd_; }
  // Tells the system that reads are random, so that it does not read ahead.
  void expect_random_reads() const;

 private:
  void read_inside(std::int64_t offset, std::span<std::byte> out) const override;

  int fd_ = -1;
  std::int64_t mtime_ns_ = 0;
};

// Memory of the caller, which must outlive this object.
class MemorySource final : public ByteSource {
 public:
  MemorySource(std::span<const std::byte> bytes, std::string name)
      : ByteSource(std::move(name), static_cast<std::int64_t>(bytes.size())), bytes_(bytes) {}

 private:
  void read_inside(std::int64_t offset, std::span<std::byte> out) const override;

  std::span<const std::byte> bytes_;
};

}  // namespace dtn
