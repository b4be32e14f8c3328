// A new or empty folder that a command fills with data.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string_view>

#include "io/posix.h"

namespace dtn {

// Throws ConfigError, in the words of the command line, if something else than a folder is there.
void check_output_folder(const std::filesystem::path& path);

// Makes the folder, and locks it against other processes for the lifetime of this object. Removes
// temporaries that a killed process left for `names`, the files and folders that it is to hold. The
// destructor removes the folder if this object made it and it is empty. Throws ConfigError if the
// folder holds anything else, or another process writes to it.
class OutputFolder {
 public:
  OutputFolder(const std::filesystem::path& path, std::initializer_list<std::string_view> names);

 private:
  // Makes the folder and its parents.
  struct Made {
    explicit Made(const std::filesystem::path& folder);
    ~Made();
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;

    std::filesystem::path path;
    bool made;
  };

  Made folder_;
  DirectoryLock lock_;
};

}  // namespace dtn
