// System calls on files. Interrupted calls are repeated, and failures throw Error.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "dtn/core/check.h"

namespace dtn {

[[noreturn]] inline void throw_errno(const char* action, const std::filesystem::path& path,
                                     int error = errno) {
  throw Error(cat("cannot ", action, " ", path.string(), ": ", std::strerror(error)));
}

// Writes all bytes or throws.
inline void write_all(int fd, const void* data, std::size_t size,
                      const std::filesystem::path& path) {
  constexpr std::size_t kMax = std::size_t{1} << 30;  // one write moves less than 2 GiB
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = ::write(fd, next, size < kMax ? size : kMax);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno("write", path);
    next += n;
    size -= static_cast<std::size_t>(n);
  }
}

// Appends all bytes, or restores the file's length and throws: half a record would spoil
// the next one.
inline void append_all(int fd, std::string_view bytes, const std::filesystem::path& path) {
  off_t end = ::lseek(fd, 0, SEEK_END);
  try {
    write_all(fd, bytes.data(), bytes.size(), path);
  } catch (const Error& e) {
    if (end >= 0 && ::ftruncate(fd, end) == 0) throw;
    throw Error(cat(e.what(), "; the file now ends with an incomplete record"));
  }
}

// A file descriptor that closes itself.
class FileHandle {
 public:
  explicit FileHandle(int fd = -1) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileHandle() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// Locks the open file or folder `fd` for this process and the children that inherit it, until all
// of them close it or exit. If another process holds the lock, waits up to `patience`, because a
// killed process may take a moment to exit. Returns false if the lock is still held then. On file
// systems without locks, returns true and does not exclude other processes.
inline bool lock_file(int fd, std::chrono::milliseconds patience = {}) {
  const auto start = std::chrono::steady_clock::now();
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return true;
    if (std::chrono::steady_clock::now() - start >= patience && errno == EWOULDBLOCK) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(patience.count() > 0 ? 20 : 0));
  }
  return true;
}

// Exclusive lock on a folder for the lifetime of this object: no lock file remains in it. If
// another process holds the lock for longer than `patience`, throws ConfigError with the text
// `busy`. No-op on file systems without locks.
class DirectoryLock {
 public:
  DirectoryLock(const std::filesystem::path& folder, const std::string& busy,
                std::chrono::milliseconds patience = {})
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_.get() < 0) throw_errno("open", folder);
    if (!lock_file(folder_.get(), patience)) throw ConfigError(busy);
  }

 private:
  FileHandle folder_;
};

// Locks a folder that files are written to.
inline DirectoryLock lock_for_writing(const std::filesystem::path& folder) {
  return {folder, cat("another process is writing ", folder.string(), "; let it finish")};
}

}  // namespace dtn
