// Images of a suite, and the meaning of their labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/robustness/robustness.h"
#include "dtn/data/dataset.h"

namespace dtn {

// A folder of images that is evaluated as one unit.
struct RobustnessCell {
  std::string name;  // as in RobustnessReport
  std::shared_ptr<const Dataset> images;
  double crop_pct = 1;
  bool stand_in = false;  // frost with generated textures
};

struct RobustnessPlan {
  std::vector<std::string> classes;  // names of the model's classes, in label order
  // Labels to choose from: classes with a folder for ImageNet-R; empty (all) for ImageNet-C.
  std::vector<std::int64_t> choice;
  double crop_pct = 1;                // of the suite's images
  bool small_images = false;          // as in RobustnessReport
  std::vector<RobustnessCell> cells;  // the clean images first
};

// Lists all folders at once, so that every error in a folder appears before hours of work. `model`
// has the model's classes, with names if the checkpoint has them.
RobustnessPlan plan_robustness(const ExperimentConfig& config, const RobustnessOptions& options,
                               const ClassList& model);

struct RobustnessFolder {
  std::string name;  // "gaussian_noise/3"
  std::filesystem::path path;
};
// Returns the folders <root>/<corruption>/<severity>, or <root>/<group>/<corruption>/<severity>, in
// the order of corruptions() and of severities. Warns about other folders. Throws DataError if
// there are none, if a corruption exists twice, or if an entry with such a name is not a folder.
std::vector<RobustnessFolder> corruption_folders(const std::filesystem::path& root);

// Reads a text file with one name per line, without surrounding blanks. Throws DataError unless it
// has `num_classes` different names.
std::vector<std::string> read_class_list(const std::filesystem::path& file,
                                         std::int64_t num_classes);

}  // namespace dtn
