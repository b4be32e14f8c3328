// Which images a suite consists of, and what their labels mean.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dtn/data/class_list.h"
#include "dtn/data/dataset.h"
#include "suite/suite.h"

namespace dtn {

// Images that are evaluated together.
struct SuiteCell {
  std::string name;  // as in SuiteReport
  std::shared_ptr<const Dataset> images;
  double crop_pct = 1;
  bool stand_in = false;  // frost whose textures are made by code
};

struct SuitePlan {
  std::vector<std::string> classes;  // of the model, in the order of labels
  // The classes to choose between: all for ImageNet-C, those that have a folder for ImageNet-R.
  std::vector<std::int64_t> choice;
  double crop_pct = 1;           // of the suite's images
  bool small_images = false;     // as in SuiteReport
  std::vector<SuiteCell> cells;  // the clean one first
};

// Lists all folders, so that whatever is wrong with one is known before hours of work.
// `model` are the model's classes, with their names where the checkpoint has them.
SuitePlan plan_suite(const ExperimentConfig& config, const SuiteOptions& options,
                     const ClassList& model);

// A text file of one name per line, surrounding blanks left out. DataError unless it has
// `num_classes` different names.
std::vector<std::string> read_class_list(const std::filesystem::path& file,
                                         std::int64_t num_classes);

}  // namespace dtn
