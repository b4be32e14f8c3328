// The text of a chosen config.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/recipe/folder_layout.h"

namespace dtn::app {

// A vision transformer from scratch.
struct ScratchModel {
  int image_size = 32, patch_size = 4, embed_dim = 96, depth = 6, num_heads = 4;
};

// A model with weights.
struct StartingModel {
  std::string file;     // of the weights
  std::string section;  // the keys of `model` as lines of YAML, indented
  std::vector<double> mean, std;
  double crop_pct = 0.875;
  std::string interpolation;
};

struct Recipe {
  std::string name, heading;  // heading: lines of a comment
  FolderLayout layout;
  ScratchModel scratch;
  std::optional<StartingModel> start;
  std::string size_reason;  // why the images have this size
  int channels = 3;
  std::int64_t classes = 0;
  bool balanced = false;  // draw all classes equally often
  std::string precision = "fp32";
  int batch_size = 64;
  std::optional<int> micro_batch;
  int epochs = 1;
  std::string epochs_reason;
  std::int64_t steps_per_epoch = 1;
};

// Returns the recipe as a config with comments.
std::string recipe_text(const Recipe& recipe);

}  // namespace dtn::app
