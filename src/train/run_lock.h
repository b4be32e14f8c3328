// One process at a time works in a run folder.
#pragma once

#include <fcntl.h>

#include <chrono>
#include <filesystem>

#include "dtn/core/check.h"
#include "io/posix.h"

namespace dtn {

// Holds the folder itself, so that nothing is left in it, until this process lets go or is gone. A
// killed run may take a moment to die and is waited for. File systems without locks go without.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& folder)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_.get() < 0) throw_errno("open", folder);
    if (!lock_file(folder_.get(), std::chrono::seconds(3))) {
      throw ConfigError(cat("--output ", folder.string(), ": another dtn-train is at work there"));
    }
  }

 private:
  FileHandle folder_;
};

}  // namespace dtn
