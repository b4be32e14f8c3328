// Lock of a run folder: one process at a time works in it.
#pragma once

#include <fcntl.h>

#include <chrono>
#include <filesystem>

#include "dtn/core/check.h"
#include "io/posix.h"

namespace dtn {

// Locks the folder itself, so no lock file remains in it, until the object is destroyed or the
// process ends. Waits up to 3 s, because a killed run may need a moment to end. No-op on file
// systems without locks. Throws ConfigError if another process holds the lock.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& folder)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_.get() < 0) throw_errno("open", folder);
    if (!lock_file(folder_.get(), std::chrono::seconds(3))) {
      throw ConfigError(
          cat("--output ", folder.string(), ": another dtn-train is running in this folder"));
    }
  }

 private:
  FileHandle folder_;
};

}  // namespace dtn
