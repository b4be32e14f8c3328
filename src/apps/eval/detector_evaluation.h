// dtn-eval for detectors: COCO's figures of a split, results in COCO's format, and the raw outputs
// for given images.
#pragma once

#include <string>

#include "dtn/config/train_config.h"
#include "dtn/tasks/detect.h"

namespace dtn::app {

struct DetectorEvaluation {
  const ExperimentConfig& config;
  Detect& task;
  Device device;
  DType compute;
  std::int64_t batch_size;
  std::string results;  // file for the results of the split; empty: none
  std::string inputs;   // file of normalised images; empty: the validation split
  std::string logits;   // file for the outputs of the dense heads for `inputs`
  bool json;
};

// Evaluates the validation split and prints the twelve figures, or writes the outputs for the given
// images: cls.<level> [N, A K, h, w] and reg.<level> [N, 4 A, h, w] float32, the finest level is 0.
// Returns the exit code. Throws ConfigError for images whose sides the model cannot process.
int evaluate_detector(const DetectorEvaluation& evaluation);

}  // namespace dtn::app
