#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {

void fail_to_read(const std::string& name, const std::string& reason) {
  throw DataError(cat("cannot read ", name, ": ", reason));
}

void read_file_into(const std::string& path, std::vector<std::byte>& out, std::int64_t max_bytes) {
  const FileSource file(path);
  if (file.size() > max_bytes)
    fail_to_read(
        path, cat("it has ", bytes_text(static_cast<double>(file.size())), ", more than the ",
                  bytes_text(static_cast<double>(max_bytes)), " allowed for a file of its kind"));
  out.resize(static_cast<std::size_t>(file.size()));
  file.read(0, out);
}

std::vector<std::byte> read_file(const std::string& path, std::int64_t max_bytes) {
  std::vector<std::byte> bytes;
  read_file_into(path, bytes, max_bytes);
  return bytes;
}

std::string read_text(const std::string& path, std::int64_t max_bytes) {
  const std::vector<std::byte> bytes = read_file(path, max_bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void ByteSource::read(std::int64_t offset, std::span<std::byte> out) const {
  const auto bytes = static_cast<std::int64_t>(out.size());
  if (offset < 0 || bytes > size_ || offset > size_ - bytes) {
    fail_to_read(name_,
                 cat("bytes ", offset, " to ", offset, " + ", bytes, " are outside its ", size_));
  }
  if (!out.empty()) read_inside(offset, out);
}

// Non-blocking, so that opening a named pipe by mistake does not wait for a writer.
FileSource::FileSource(const std::string& path) : ByteSource(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail_to_read(path, std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(fd_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const std::string reason = known ? "it is not a regular file" : std::strerror(errno);
    ::close(fd_);
    fail_to_read(path, reason);
  }
  size_ = status.st_size;
  mtime_ns_ = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

FileSource::~FileSource() { ::close(fd_); }

void FileSource::expect_random_reads() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM); }

void FileSource::read_inside(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_to_read(name_, std::strerror(errno));
    if (n == 0)
      fail_to_read(name_, cat("it now ends at byte ", offset, "; it had ", size_, " bytes before"));
    offset += n;
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

void MemorySource::read_inside(std::int64_t offset, std::span<std::byte> out) const {
  std::memcpy(out.data(), bytes_.data() + offset, out.size());
}

}  // namespace dtn
