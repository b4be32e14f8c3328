// Lock that gives one process exclusive use of a file or folder.
#pragma once

#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace dtn {

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

}  // namespace dtn
