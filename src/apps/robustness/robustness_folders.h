// Folder layout of ImageNet-C.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtn {

struct RobustnessFolder {
  std::string name;  // "gaussian_noise/3"
  std::filesystem::path path;
};

// Returns the folders <root>/<corruption>/<severity>, or <root>/<group>/<corruption>/<severity>, in
// the order of corruptions() and of severities. Warns about other folders. Throws DataError if
// there are none, if a corruption exists twice, or if an entry with such a name is not a folder.
std::vector<RobustnessFolder> corruption_folders(const std::filesystem::path& root);

}  // namespace dtn
