// The images in a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dtn {

// Paths of all images below `folder`, relative to it, in torchvision's order; what begins with a
// dot is left out, links are followed. Adds to `undecodable` the images in formats that are not
// read here. DataError when a folder cannot be listed, or for a circle of links.
std::vector<std::string> list_images(const std::filesystem::path& folder,
                                     std::int64_t& undecodable);

}  // namespace dtn
