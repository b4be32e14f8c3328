// Writes detections in images as text, JSON or pictures.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/predict/pictures.h"
#include "data/coco/rle.h"

namespace CLI {
class App;
}

namespace dtn::app {

// An object that a model has found.
struct PredictedObject {
  std::int64_t label = 0;
  double score = 0;             // 0 to 1
  std::array<double, 4> box{};  // x1, y1, x2, y2 in pixels of the image
  std::optional<Rle> mask{};    // of the size of the image
};

// Outputs: standard output, as text or one JSON object per line, and pictures.
struct DetectionFormat {
  bool text = false, json = false;
  std::string output{};  // folder of the pictures; empty: none
  double score = 0.3;    // objects of a lower score are left out
  bool upright = false;  // turn the images as the model sees them, see DecodeOptions

  // Adds --output and --score.
  void add_to(CLI::App& app);
};

// Writes the detections of images one by one.
class DetectionWriter {
 public:
  // `names`: names of the first classes. Creates the folder of the pictures. Throws ConfigError if
  // a picture would replace an image, or would be that of two images; see output_paths().
  DetectionWriter(const DetectionFormat& format, std::vector<InputPicture> images,
                  std::vector<std::string> names);

  // Writes the objects of the image at that position, the highest score first. The picture
  // shows the whole image.
  void add(std::int64_t index, const std::vector<PredictedObject>& objects);
  void add_fault(std::int64_t index, const std::string& what);

 private:
  std::string name_of(std::int64_t label) const;
  void print(const std::string& file, const std::vector<PredictedObject>& objects) const;
  void print_json(const std::string& file, const std::vector<PredictedObject>& objects) const;
  void draw(std::size_t index, const std::vector<PredictedObject>& objects) const;

  DetectionFormat format_;
  std::vector<InputPicture> images_;
  std::vector<std::string> names_;
  std::vector<std::filesystem::path> pictures_;  // of the images; empty: none are drawn
};

}  // namespace dtn::app
