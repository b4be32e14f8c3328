// Where the images of ImageNet-C lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtn {

struct SuiteFolder {
  std::string name;  // "gaussian_noise/3"
  std::filesystem::path path;
};

// The folders <root>/<corruption>/<severity>, or <root>/<group>/<corruption>/<severity>, in the
// order of corruptions() and of severities. Warns about folders that are neither. DataError when
// there are none, when one is there twice, or when something else has such a name.
std::vector<SuiteFolder> corruption_folders(const std::filesystem::path& root);

}  // namespace dtn
