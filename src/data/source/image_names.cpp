#include "data/source/image_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

namespace dtn {
namespace {

// torchvision's list of image files, and the part of it that can be decoded here.
constexpr std::array<std::string_view, 7> kDecodable = {".jpg", ".jpeg", ".png", ".webp",
                                                        ".bmp", ".ppm",  ".pgm"};
constexpr std::array<std::string_view, 2> kUndecodable = {".tif", ".tiff"};

std::string lower_extension(std::string_view file) {
  const std::size_t dot = file.rfind('.');
  std::string extension(dot == file.npos ? std::string_view() : file.substr(dot));
  for (char& c : extension) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return extension;
}

}  // namespace

NameKind kind_of_name(std::string_view file) {
  const std::string extension = lower_extension(base_name(file));
  if (std::ranges::find(kDecodable, extension) != kDecodable.end()) return NameKind::kImage;
  if (std::ranges::find(kUndecodable, extension) != kUndecodable.end()) {
    return NameKind::kUndecodable;
  }
  return NameKind::kOther;
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
