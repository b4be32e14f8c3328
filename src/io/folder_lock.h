// Keeps other processes out of a folder.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>

#include "dtn/core/check.h"
#include "io/posix.h"

namespace dtn {

// For as long as it lives, of those that lock the folder, too. Throws ConfigError where another has
// it. File systems that know no locks let everybody in.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_.get() < 0) throw_errno("open", folder);
    if (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw ConfigError(cat("another process is writing ", folder.string(), "; let it finish"));
    }
  }

 private:
  FileHandle folder_;
};

}  // namespace dtn
