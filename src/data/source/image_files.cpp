#include "data/source/image_files.h"

#include <algorithm>
#include <system_error>

#include "data/source/image_names.h"
#include "dtn/core/check.h"

namespace dtn {

namespace fs = std::filesystem;

namespace {

constexpr int kMaxDepth = 16;  // nested folders

}  // namespace

void check_link(const fs::directory_entry& entry) {
  std::error_code ignored;
  if (!entry.is_symlink(ignored) || fs::exists(entry.path(), ignored)) return;
  throw DataError(cat(entry.path().string(), ": is a link to ",
                      fs::read_symlink(entry.path(), ignored).string(),
                      ", which does not exist; restore that file, or remove the link"));
}

std::vector<std::string> list_images(const fs::path& folder, LeftOut& left_out) {
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
      if (is_image_name(path.native())) {
        files.push_back(path.native().substr(prefix));
      } else {
        left_out.add_file(path.native());
      }
    } else {
      check_link(*it);
    }
  }
  if (error) throw DataError(cat("cannot list ", folder.string(), ": ", error.message()));
  std::ranges::sort(files, comes_before);
  return files;
}

}  // namespace dtn
