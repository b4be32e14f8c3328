// Paths and files of the pictures that dtn-predict makes.
#pragma once

#include <filesystem>
#include <vector>

#include "apps/predict/pictures.h"
#include "dtn/io/image.h"

namespace dtn::app {

// Returns the path of the drawn picture of each input: `folder`/<name>.png, with the subfolders of
// the name. Inputs that differ in their extensions alone keep them: a.jpg.png, a.bmp.png. Throws
// ConfigError if a picture would replace an input, and if two inputs would have the same picture.
std::vector<std::filesystem::path> output_paths(const std::vector<InputPicture>& inputs,
                                                const std::filesystem::path& folder);

// Writes a picture as PNG, after making its folder.
void write_picture(const std::filesystem::path& path, const Image& picture);
// Makes a folder and those above it. Throws Error, naming the folder.
void make_folder(const std::filesystem::path& folder);

}  // namespace dtn::app
