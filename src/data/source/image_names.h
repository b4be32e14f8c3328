// Names of image files, their order, and files that are not read, for all data sets that consist of
// files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "dtn/data/dataset.h"

namespace dtn {

// Endings of the images that are read, for messages.
inline constexpr const char* kImageEndings =
    ".jpg, .jpeg, .jpe, .jfif, .png, .webp, .gif, .bmp, .ppm, .pgm, .tga, .psd, .hdr and .pic";

// True for a name with one of kImageEndings, in upper or lower case.
bool is_image_name(std::string_view file);

// Returns the ending of a file's name in lower case, with its dot; empty if there is none.
std::string lower_ending(std::string_view file);

// True if a part of the path begins with a dot. These files are hidden and not read.
bool is_hidden_path(std::string_view path);

// Orders paths by folder, then by file name, each in byte order: torchvision's order.
bool comes_before(std::string_view a, std::string_view b);

// Files of a data set that are not read, counted by kind for one warning.
class LeftOut {
 public:
  // Counts a file by the ending of its name.
  void add_file(std::string_view name);
  // Counts files of a kind in words, such as "label without an image", "labels without an image".
  void add(const std::string& one, const std::string& many, std::int64_t files = 1);
  void add(const LeftOut& other);

  std::int64_t count() const { return count_; }
  // Returns "2 .avif, 1 without an extension", the most frequent first; empty if nothing was left
  // out.
  std::string kinds() const;
  // Returns the warning "<where>: left out 2 .avif, ...", with the endings that are read; empty if
  // nothing was left out.
  std::string warning(const std::string& where) const;

 private:
  struct Kind {
    std::string one;
    std::int64_t files = 0;
  };
  std::map<std::string, Kind> kinds_;  // by their plural
  std::int64_t count_ = 0;
};

// Describes a data set: "20 val images of 3 classes in <where>".
std::string images_of_classes(const Dataset& dataset, const char* split, const std::string& where);

// Returns the part of a path after its last slash.
std::string_view base_name(std::string_view path);

}  // namespace dtn
