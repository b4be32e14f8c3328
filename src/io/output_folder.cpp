#include "io/output_folder.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "dtn/core/check.h"
#include "io/atomic_file.h"

namespace dtn {
namespace fs = std::filesystem;

void check_output_folder(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_directory(path, ignored)) {
    throw ConfigError(cat("--output ", path.string(), " is not a folder"));
  }
}

OutputFolder::Made::Made(const fs::path& folder) : path(folder) {
  std::error_code error;
  made = fs::create_directories(path, error);
  if (error) throw_errno("create the folder", path, error.value());
}

OutputFolder::Made::~Made() {
  std::error_code ignored;
  if (made) fs::remove(path, ignored);  // fails if it is not empty
}

OutputFolder::OutputFolder(const fs::path& path, std::initializer_list<std::string_view> names)
    : folder_(path), lock_(lock_for_writing(path)) {
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    const auto is_temporary = [&](std::string_view of) {
      return name.starts_with(cat(of, ".tmp-"));
    };
    if (std::ranges::any_of(names, is_temporary)) continue;
    throw ConfigError(
        cat(path.string(), " already holds files (", name,
            ") and was not changed; choose another --output, or remove the files first"));
  }
  remove_stale_temporaries(path);
}

}  // namespace dtn
