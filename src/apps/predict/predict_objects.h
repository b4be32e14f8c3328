// dtn-predict for detectors: objects in images.
#pragma once

#include <string>
#include <vector>

#include "apps/predict/detections.h"
#include "dtn/config/train_config.h"
#include "dtn/tasks/detect.h"

namespace dtn::app {

struct ObjectPrediction {
  const ExperimentConfig& config;
  Detect& task;
  Device device;
  DType compute;
  std::int64_t batch_size;
  std::vector<InputPicture> pictures;
  DetectionFormat format;
  std::vector<std::string> names;  // of the classes
};

// Finds the objects in all pictures and writes them in their order. A damaged picture is reported.
// Throws as DetectionWriter does.
PictureCount predict_objects(const ObjectPrediction& prediction);

}  // namespace dtn::app
