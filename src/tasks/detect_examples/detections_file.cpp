#include "tasks/detect_examples/detections_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "dtn/core/check.h"

namespace dtn {
namespace {

using Json = nlohmann::ordered_json;

// Limits on an untrusted file.
constexpr std::size_t kMaxImages = 64, kMaxObjects = 5000, kMaxClasses = 100'000;
constexpr std::int64_t kMaxSide = 65'500, kMaxPixels = 178'956'970;  // of DecodeOptions
constexpr std::int64_t kMaxLabel = 1'000'000;
constexpr double kFar = 1e6;  // pixels; largest coordinate of a box

enum class Kind { kTruth, kDetection };

Json json_of(const ExampleObject& object, Kind kind) {
  Json json{{"label", object.label}, {"box", object.box}};
  if (kind == Kind::kDetection) json["score"] = object.score;
  if (object.crowd) json["crowd"] = true;
  if (!object.mask.empty()) json["mask"] = object.mask;
  return json;
}

// Boxes of a diverged model may be anything.
bool is_readable(const ExampleObject& object) {
  const auto near = [](double at) { return std::abs(at) <= kFar; };  // false for NaN
  return std::ranges::all_of(object.box, near) && object.score >= 0 && object.score <= 1 &&
         object.label >= 0 && object.label <= kMaxLabel;
}

Json json_of(const std::vector<ExampleObject>& objects, Kind kind) {
  Json list = Json::array();
  for (const ExampleObject& object : objects) {
    if (list.size() == kMaxObjects) break;
    if (is_readable(object)) list.push_back(json_of(object, kind));
  }
  return list;
}

Json json_of(const DetectionExample& image) {
  return {{"index", image.index},
          {"width", image.width},
          {"height", image.height},
          {"truths", json_of(image.truths, Kind::kTruth)},
          {"detections", json_of(image.detections, Kind::kDetection)}};
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// A value of the file and its place, for errors.
class Value {
 public:
  Value(const Json& json, std::string place) : json_(&json), place_(std::move(place)) {}

  [[noreturn]] void fail(const std::string& problem) const {
    throw DataError(cat(place_, ": ", problem));
  }
  bool has(const char* key) const { return json_->is_object() && json_->contains(key); }
  Value at(const char* key) const {
    if (!has(key)) fail(cat("has no '", key, "'"));
    return {(*json_)[key], cat(place_, ".", key)};
  }
  Value at(std::size_t i) const { return {(*json_)[i], cat(place_, "[", i, "]")}; }
  // The length of a list.
  std::size_t size(std::size_t most) const {
    if (!json_->is_array()) fail("is not a list");
    if (json_->size() > most) fail(cat("has ", json_->size(), " values, more than ", most));
    return json_->size();
  }
  std::int64_t whole(std::int64_t least, std::int64_t most) const {
    const bool fits = json_->is_number_integer() &&
                      (!json_->is_number_unsigned() ||
                       json_->get<std::uint64_t>() <=
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    const std::int64_t value = fits ? json_->get<std::int64_t>() : 0;
    if (!fits || value < least || value > most) {
      fail(cat("is not a whole number from ", least, " to ", most));
    }
    return value;
  }
  double number(double least, double most) const {
    const double value = json_->is_number() ? json_->get<double>() : std::nan("");
    if (!(value >= least && value <= most)) fail(cat("is not a number from ", least, " to ", most));
    return value;
  }
  bool truth() const {
    if (!json_->is_boolean()) fail("is not true or false");
    return json_->get<bool>();
  }
  std::string text() const {
    if (!json_->is_string()) fail("is not a text");
    return json_->get<std::string>();
  }
  // Returns read(value) for each value of a list.
  template <class Read>
  auto list(std::size_t most, Read read) const {
    std::vector<decltype(read(*this))> values(size(most));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = read(at(i));
    return values;
  }

 private:
  const Json* json_;
  std::string place_;
};

ExampleObject read_object(const Value& value, Kind kind) {
  ExampleObject object{.label = value.at("label").whole(0, kMaxLabel)};
  const Value box = value.at("box");
  if (box.size(4) != 4) box.fail("has not four values");
  for (std::size_t i = 0; i < 4; ++i) object.box[i] = box.at(i).number(-kFar, kFar);
  if (kind == Kind::kDetection) object.score = value.at("score").number(0, 1);
  if (value.has("crowd")) object.crowd = value.at("crowd").truth();
  if (value.has("mask")) object.mask = value.at("mask").text();
  return object;
}

DetectionExample read_image(const Value& value) {
  DetectionExample image{
      .index = value.at("index").whole(0, std::numeric_limits<std::int64_t>::max()),
      .width = value.at("width").whole(1, kMaxSide),
      .height = value.at("height").whole(1, kMaxSide)};
  if (image.width * image.height > kMaxPixels) {
    value.fail(cat("has ", image.width, " x ", image.height, " pixels, more than ", kMaxPixels));
  }
  image.truths = value.at("truths").list(
      kMaxObjects, [](const Value& v) { return read_object(v, Kind::kTruth); });
  image.detections = value.at("detections").list(kMaxObjects, [](const Value& v) {
    return read_object(v, Kind::kDetection);
  });
  return image;
}

// A picture must not lie elsewhere.
std::string read_picture(const Value& value) {
  std::string name = value.text();
  const bool plain = !name.empty() && name.front() != '.' &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!plain) value.fail("is not the name of a file");
  return name;
}

PrecisionCurves read_curves(const Value& value) {
  PrecisionCurves curves{.name = value.at("name").text(), .ap = value.at("ap").number(-1, 1)};
  const Value rows = value.at("precision");
  const auto check_length = [](const Value& list, std::size_t length) {
    if (list.size(length) != length) list.fail(cat("has not ", length, " values"));
  };
  check_length(rows, PrecisionCurves::kThresholds);
  for (std::size_t t = 0; t < PrecisionCurves::kThresholds; ++t) {
    const Value row = rows.at(t);
    check_length(row, PrecisionCurves::kRecalls);
    for (std::size_t r = 0; r < PrecisionCurves::kRecalls; ++r) {
      curves.precision[t][r] = row.at(r).number(-1, 1);
    }
  }
  return curves;
}

Json parsed(std::string_view text, const std::string& name) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw DataError(cat(name, ": is not JSON"));
  return json;
}

}  // namespace

std::string DetectionsFile::class_name(std::int64_t label) const {
  const auto i = static_cast<std::size_t>(label);
  return label >= 0 && i < classes.size() ? classes[i] : cat("class ", label);
}

std::string detections_json(const DetectionsFile& file) {
  Json curves = Json::array(), images = Json::array();
  for (const PrecisionCurves& c : file.curves) {
    curves.push_back({{"name", c.name}, {"ap", c.ap}, {"precision", c.precision}});
  }
  for (const DetectionsFile::Shown& shown : file.images) {
    Json json{{"name", shown.name}, {"picture", shown.picture}};
    json.update(json_of(shown.image));
    images.push_back(std::move(json));
  }
  return text_of({{"step", file.step},
                  {"classes", file.classes},
                  {"curves", std::move(curves)},
                  {"images", std::move(images)}});
}

DetectionsFile read_detections(std::string_view text, const std::string& name) {
  const Json json = parsed(text, name);
  const Value value(json, name);
  DetectionsFile file{.step = value.at("step").whole(0, std::numeric_limits<std::int64_t>::max())};
  file.classes = value.at("classes").list(kMaxClasses, [](const Value& v) { return v.text(); });
  file.curves = value.at("curves").list(2, read_curves);
  file.images = value.at("images").list(kMaxImages, [](const Value& v) {
    return DetectionsFile::Shown{.name = v.at("name").text(),
                                 .picture = read_picture(v.at("picture")),
                                 .image = read_image(v)};
  });
  return file;
}

std::string examples_json(const std::vector<DetectionExample>& images) {
  Json list = Json::array();
  for (const DetectionExample& image : images) list.push_back(json_of(image));
  return text_of(list);
}

std::vector<DetectionExample> examples_of_json(std::string_view text) {
  const Json json = parsed(text, "examples");
  return Value(json, "examples").list(kMaxImages, read_image);
}

}  // namespace dtn
