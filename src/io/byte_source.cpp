#include "io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dtn/core/check.h"
#include "io/file.h"

namespace dtn {

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
