// Paths of the pictures that dtn-predict draws.
#pragma once

#include <filesystem>
#include <vector>

#include "apps/predict/pictures.h"

namespace dtn::app {

// Returns the path of the drawn picture of each input: `folder`/<name>.png, with the subfolders of
// the name. Inputs that differ in their extensions alone keep them: a.jpg.png, a.bmp.png. Throws
// ConfigError if a picture would replace an input, and if two inputs would have the same picture.
std::vector<std::filesystem::path> output_paths(const std::vector<InputPicture>& inputs,
                                                const std::filesystem::path& folder);

}  // namespace dtn::app
