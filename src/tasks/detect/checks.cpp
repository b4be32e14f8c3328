#include "tasks/detect/checks.h"

#include "dtn/config/train_config.h"
#include "dtn/core/check.h"

namespace dtn {

std::optional<ConfigProblem> detect_problem(const ExperimentConfig& config) {
  const ModelConfig& model = config.model;
  if (!model.detector.kind) {
    return ConfigProblem{{"model.detector", "task"},
                         "task detect needs model.detector: retinanet or mask_rcnn"};
  }
  if (model.num_classes < 1) {
    return ConfigProblem{{"model.num_classes"},
                         "a detector needs classes; set model.num_classes to their number"};
  }
  if (model.channels != 3) {
    return ConfigProblem{
        {"model.channels"},
        cat("detectors see RGB images, so model.channels must be 3, not ", model.channels)};
  }
  return std::nullopt;
}

}  // namespace dtn
