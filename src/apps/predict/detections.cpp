#include "apps/predict/detections.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "apps/common/json_files.h"
#include "apps/predict/output_paths.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/io/image.h"
#include "io/file.h"
#include "plot/draw_objects.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

// Rounds float32 values, whose other digits mean nothing.
double rounded(double value, double per_unit) { return std::round(value * per_unit) / per_unit; }

// Returns the objects that are shown, the highest score first.
std::vector<PredictedObject> shown(const std::vector<PredictedObject>& objects, double score) {
  std::vector<const PredictedObject*> order;
  for (const PredictedObject& o : objects) {
    if (o.score >= score) order.push_back(&o);
  }
  std::ranges::stable_sort(order, std::greater<>(), &PredictedObject::score);
  std::vector<PredictedObject> sorted;
  for (const PredictedObject* o : order) sorted.push_back(*o);
  return sorted;
}

}  // namespace

void DetectionFormat::add_to(CLI::App& app) {
  app.add_option("--output", output,
                 "for a detector: draw the objects on the images, and write these pictures (PNG) "
                 "to this folder, with the subfolders of the images; for an image-to-image model, "
                 "which needs it: write its results there");
  app.add_option("--score", score, "for a detector: least score of the objects to show")
      ->check(CLI::Range(0.0, 1.0));
}

DetectionWriter::DetectionWriter(const DetectionFormat& format, std::vector<InputPicture> images,
                                 std::vector<std::string> names)
    : format_(format), images_(std::move(images)), names_(std::move(names)) {
  if (format_.output.empty()) return;
  pictures_ = output_paths(images_, format_.output);
  make_folder(format_.output);
}

std::string DetectionWriter::name_of(std::int64_t label) const {
  const auto i = static_cast<std::size_t>(label);
  return label >= 0 && i < names_.size() ? names_[i] : cat("class ", label);
}

void DetectionWriter::add(std::int64_t index, const std::vector<PredictedObject>& objects) {
  const auto i = static_cast<std::size_t>(index);
  const std::vector<PredictedObject> best = shown(objects, format_.score);
  if (format_.text) print(images_.at(i).file, best);
  if (format_.json) print_json(images_.at(i).file, best);
  if (!pictures_.empty()) draw(i, best);
}

void DetectionWriter::add_fault(std::int64_t index, const std::string& what) {
  if (!format_.json) return;
  const Json line{{"file", images_.at(static_cast<std::size_t>(index)).file}, {"error", what}};
  std::fputs(json_text(line).c_str(), stdout);
}

void DetectionWriter::print(const std::string& file,
                            const std::vector<PredictedObject>& objects) const {
  std::printf("%s\n", file.c_str());
  if (objects.empty()) std::printf("  no object with a score of at least %g\n", format_.score);
  for (const PredictedObject& object : objects) {
    std::printf("  %6.2f %%  %s  at (%.0f, %.0f) to (%.0f, %.0f)\n", 100 * object.score,
                name_of(object.label).c_str(), object.box[0], object.box[1], object.box[2],
                object.box[3]);
  }
}

void DetectionWriter::print_json(const std::string& file,
                                 const std::vector<PredictedObject>& objects) const {
  Json detections = Json::array();
  for (const PredictedObject& object : objects) {
    Json box = Json::array();
    for (const double at : object.box) box.push_back(rounded(at, 1e3));
    Json json{{"label", object.label},
              {"name", name_of(object.label)},
              {"score", rounded(object.score, 1e6)},
              {"box", std::move(box)}};
    if (object.mask) {
      json["mask"] = {{"size", {object.mask->height, object.mask->width}},
                      {"counts", rle_text(*object.mask)}};
    }
    detections.push_back(std::move(json));
  }
  const Json line{{"file", file}, {"detections", std::move(detections)}};
  std::fputs(json_text(line).c_str(), stdout);
}

void DetectionWriter::draw(std::size_t index, const std::vector<PredictedObject>& objects) const {
  const std::string& file = images_[index].file;
  std::vector<plot::DrawnObject> drawn;
  for (const PredictedObject& object : objects) {
    const auto at = [&](std::size_t i) { return static_cast<float>(object.box[i]); };
    drawn.push_back({.x1 = at(0),
                     .y1 = at(1),
                     .x2 = at(2),
                     .y2 = at(3),
                     .label = object.label,
                     .text = name_of(object.label),
                     .number = format("%.2f", object.score),
                     .score = static_cast<float>(object.score)});
    if (!object.mask) continue;
    drawn.back().mask = {
        .height = object.mask->height, .width = object.mask->width, .runs = object.mask->runs};
  }
  const Image image = decode_image(read_file(file), file, {.upright = format_.upright});
  write_picture(pictures_[index], plot::draw_objects(image, drawn));
}

}  // namespace dtn::app
