// Names of image files and their order, for all data sets that consist of files.
#pragma once

#include <string>
#include <string_view>

namespace dtn {

// Endings of the images that are read, for messages.
inline constexpr const char* kImageEndings =
    ".jpg, .jpeg, .jpe, .jfif, .png, .webp, .bmp, .ppm and .pgm";

// True for a name with one of kImageEndings, in upper or lower case.
bool is_image_name(std::string_view file);

// Returns the ending of a file's name in lower case, with its dot; empty if there is none.
std::string lower_ending(std::string_view file);

// True if a part of the path begins with a dot. These files are hidden and not read.
bool is_hidden_path(std::string_view path);

// Orders paths by folder, then by file name, each in byte order: torchvision's order.
bool comes_before(std::string_view a, std::string_view b);

// Returns the part of a path after its last slash.
std::string_view base_name(std::string_view path);

}  // namespace dtn
