// Which files count as images, and in which order: the rules of all data sets that have files.
#pragma once

#include <string_view>

namespace dtn {

enum class NameKind {
  kImage,        // .jpg, .jpeg, .png, .webp, .bmp, .ppm or .pgm, whatever the case
  kUndecodable,  // an image by torchvision's list, in a format that is not read here
  kOther,
};
NameKind kind_of_name(std::string_view file);

// Whether a part of the path begins with a dot: such files are left out.
bool is_hidden_path(std::string_view path);

// By folder, then by file name, each in byte order: torchvision's order.
bool comes_before(std::string_view a, std::string_view b);

// What follows the last slash.
std::string_view base_name(std::string_view path);

}  // namespace dtn
