// Images of an evaluation with their objects, and curves of precision over recall, for pictures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dtn {

// An object of an image: a truth, or a detection.
struct ExampleObject {
  std::array<double, 4> box{};  // x1, y1, x2, y2 in pixels of the original image
  std::int64_t label = 0;       // index of the class
  double score = 1;             // of a detection, 0 to 1
  bool crowd = false;           // a truth that is a group of objects
  // The mask of the whole original image as COCO's compressed text; empty: the object has none.
  std::string mask{};

  bool operator==(const ExampleObject&) const = default;
};

// An evaluated image.
struct DetectionExample {
  std::int64_t index = 0;              // position in the data set
  std::int64_t width = 0, height = 0;  // of the original image, in pixels
  std::vector<ExampleObject> truths{}, detections{};

  bool operator==(const DetectionExample&) const = default;
};

// Precision of detections whose overlap with a truth reaches a threshold, as COCO measures it.
struct PrecisionCurves {
  static constexpr std::size_t kThresholds = 10;  // IoU 0.50, 0.55, ..., 0.95
  static constexpr std::size_t kRecalls = 101;    // 0, 0.01, ..., 1

  std::string name{};  // kind of overlap: "bbox" or "segm"
  double ap = -1;      // mean of all values, 0 to 1; -1: no class has a truth
  // The mean over the classes; -1 if no class has a truth.
  std::array<std::array<double, kRecalls>, kThresholds> precision{};

  bool operator==(const PrecisionCurves&) const = default;
};

// Results of an evaluation of a detector. Names of images and classes are those of the samples.
struct DetectionExamples {
  std::vector<DetectionExample> images{};
  std::vector<PrecisionCurves> curves{};
};

}  // namespace dtn
