#include "core/installed.h"

#include <algorithm>

namespace dtn {

namespace fs = std::filesystem;

std::vector<fs::path> installed_places(const fs::path& path) {
  std::vector<fs::path> places;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) places.push_back((program.parent_path().parent_path() / path).lexically_normal());
  const fs::path prefix = detail::installation_prefix();
  if (!prefix.empty()) places.push_back((prefix / path).lexically_normal());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

}  // namespace dtn
