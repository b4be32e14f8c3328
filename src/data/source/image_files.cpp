#include "data/source/image_files.h"

#include <algorithm>
#include <system_error>

#include "data/source/image_names.h"
#include "dtn/core/check.h"

namespace dtn {

namespace fs = std::filesystem;

namespace {
constexpr int kMaxDepth = 16;  // of folders
}  // namespace

std::vector<std::string> list_images(const fs::path& folder, std::int64_t& undecodable) {
  std::vector<std::string> files;
  std::error_code error;
  const std::string& name = folder.native();
  const std::size_t prefix = name.size() + (name.ends_with('/') ? 0 : 1);
  fs::recursive_directory_iterator it(folder, fs::directory_options::follow_directory_symlink,
                                      error);
  for (fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const fs::path& path = it->path();
    if (path.filename().native().starts_with('.')) {
      it.disable_recursion_pending();
    } else if (it.depth() > kMaxDepth) {
      throw DataError(cat(path.string(), ": more than ", kMaxDepth,
                          " folders deep; does a link lead in a circle?"));
    } else if (it->is_regular_file(ignored)) {
      const NameKind kind = kind_of_name(path.native());
      if (kind == NameKind::kImage) files.push_back(path.native().substr(prefix));
      if (kind == NameKind::kUndecodable) ++undecodable;
    }
  }
  if (error) throw DataError(cat("cannot list ", folder.string(), ": ", error.message()));
  std::ranges::sort(files, comes_before);
  return files;
}

}  // namespace dtn
