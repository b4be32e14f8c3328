// The config that dtn-train chooses for the images of a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/recipe/folder_layout.h"
#include "dtn/core/device.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

struct FolderTraining {
  std::filesystem::path folder;
  std::string weights;  // as --checkpoint of dtn-eval; empty: from scratch
  double minutes = 30;  // for the whole run on this machine
};

// Returns the text of a config with a comment on each choice. The size of the images and of a model
// from scratch, the precision and the number of epochs follow from the speed of this machine, which
// is measured on the images of the folder. With weights, the model and the size of the images are
// theirs. Logs what it found and chose. Throws DataError for images that cannot be used, and
// ConfigError for weights that cannot.
std::string choose_recipe(const FolderTraining& training, Device device,
                          const Registries& registries);

}  // namespace dtn::app
