// One process at a time works in a run folder.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "dtn/core/check.h"
#include "io/posix.h"

namespace dtn {

// Holds the folder itself, so that nothing is left in it, until this process lets go or is gone. A
// killed run may take a moment to die and is waited for. File systems without locks go without.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& folder)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    using namespace std::chrono_literals;
    if (folder_.get() < 0) throw_errno("open", folder);
    const auto start = std::chrono::steady_clock::now();
    while (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 &&
           (errno == EWOULDBLOCK || errno == EINTR)) {
      if (std::chrono::steady_clock::now() - start > 3s) {
        throw ConfigError(
            cat("--output ", folder.string(), ": another dtn-train is at work there"));
      }
      std::this_thread::sleep_for(20ms);
    }
  }

 private:
  FileHandle folder_;
};

}  // namespace dtn
