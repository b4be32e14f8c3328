#include "data/source/image_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

namespace dtn {

std::string lower_ending(std::string_view file) {
  file = base_name(file);
  const std::size_t dot = file.rfind('.');
  std::string ending(dot == file.npos ? std::string_view() : file.substr(dot));
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending;
}

bool is_image_name(std::string_view file) {
  constexpr std::array<std::string_view, 9> kEndings = {".jpg",  ".jpeg", ".jpe", ".jfif", ".png",
                                                        ".webp", ".bmp",  ".ppm", ".pgm"};
  return std::ranges::find(kEndings, lower_ending(file)) != kEndings.end();
}

bool is_hidden_path(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != path.npos;
}

bool comes_before(std::string_view a, std::string_view b) {
  auto split = [](std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == path.npos ? std::pair(std::string_view(), path)
                              : std::pair(path.substr(0, slash), path.substr(slash + 1));
  };
  return split(a) < split(b);
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace dtn
