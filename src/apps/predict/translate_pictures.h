// dtn-predict for image-to-image models: the output for each picture, as a picture.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/predict/pictures.h"
#include "dtn/config/train_config.h"
#include "dtn/tasks/translate.h"

namespace dtn::app {

struct PictureTranslation {
  const ExperimentConfig& config;
  Translate& task;
  Device device;
  DType compute;
  const std::vector<InputPicture>& pictures;
  std::filesystem::path folder;       // of the results
  std::optional<std::int64_t> style;  // for a model that reads one
  std::string style_image;            // file, for a model that reads one; empty: none
  bool json = false;                  // one JSON object per line instead of text
};

// Runs the model on each picture in turn and writes folder/<name>.png, see output_paths(). Results
// have the size of the picture: for the model it is continued to the right and below by its mirror
// image, without the edge, to the multiple that the model needs. A damaged picture is reported.
// Throws ConfigError for a model that reads what pictures do not have.
PictureCount translate_pictures(const PictureTranslation& translation);

}  // namespace dtn::app
