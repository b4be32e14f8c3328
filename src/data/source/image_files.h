// Lists the images in a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/source/left_out.h"

namespace dtn {

// Throws DataError for a link whose target does not exist.
void check_link(const std::filesystem::directory_entry& entry);

// Returns the paths of all images below `folder`, relative to it, in torchvision's order. Links are
// followed. Names that begin with a dot are hidden and not counted. Counts all other files in
// `left_out`. Throws DataError if a folder cannot be listed, for a link without a target and for a
// circle of links.
std::vector<std::string> list_images(const std::filesystem::path& folder, LeftOut& left_out);

}  // namespace dtn
