// Lists the images in a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/source/image_names.h"

namespace dtn {

// Returns the paths of all images below `folder`, relative to it, in torchvision's order. Links are
// followed. Names that begin with a dot are hidden and not counted. Counts all other files in
// `left_out`. Throws DataError if a folder cannot be listed, for a link without a target and for a
// circle of links.
std::vector<std::string> list_images(const std::filesystem::path& folder, LeftOut& left_out);

}  // namespace dtn
