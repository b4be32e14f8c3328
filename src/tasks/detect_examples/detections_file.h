// detections.json of a run: some validation images with their truths and detections, and curves of
// precision over recall, of the best evaluation. Its pictures are PNG files in the folder
// detections/ beside it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtn/core/detection_examples.h"

namespace dtn {

inline constexpr const char* kDetectionsFile = "detections.json";
inline constexpr const char* kDetectionsFolder = "detections";  // of the pictures

// Score that a detection needs to be shown.
inline constexpr double kShownScore = 0.3;

struct DetectionsFile {
  // An image and its picture, which may be smaller.
  struct Shown {
    std::string name{};     // for people: the file of the image in its data set
    std::string picture{};  // name of a file in kDetectionsFolder
    DetectionExample image{};

    bool operator==(const Shown&) const = default;
  };

  std::int64_t step = 0;
  std::vector<std::string> classes{};  // names in label order; empty: unknown
  std::vector<Shown> images{};
  std::vector<PrecisionCurves> curves{};

  // Returns "class 7" for a label without a name.
  std::string class_name(std::int64_t label) const;
  bool operator==(const DetectionsFile&) const = default;
};

// Returns the text of the file. Names may be any bytes; parts that are not UTF-8 are replaced.
// Objects whose values are not finite or out of range are left out, as are those after the first
// 5,000 truths or detections of an image, which a reader refuses.
std::string detections_json(const DetectionsFile& file);

// Reads a text, which need not be of detections_json(). `name` names it in errors. Throws DataError
// if a value is absent, of another type or out of range, or if a picture is not a plain file name.
// Masks are not read; rle_of_text() does it.
DetectionsFile read_detections(std::string_view text, const std::string& name);

// The same for images alone, without names and pictures.
std::string examples_json(const std::vector<DetectionExample>& images);
std::vector<DetectionExample> examples_of_json(std::string_view text);

}  // namespace dtn
