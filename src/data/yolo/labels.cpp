#include "data/yolo/labels.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>

#include "config/document.h"
#include "core/format.h"
#include "core/text.h"
#include "data/source/image_folder.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/io/image.h"
#include "io/file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxLabelBytes = std::int64_t{64} << 20;
constexpr double kRounding = 0.001;
constexpr std::size_t kBoxValues = 4, kMinPolygonValues = 6;
// Enough for the header of most images.
constexpr std::int64_t kHeaderBytes = std::int64_t{1} << 16;

// Reads the lines of one label file.
class LabelParser {
 public:
  LabelParser(const std::string& name, std::int64_t classes, std::int64_t width,
              std::int64_t height)
      : name_(name), classes_(classes), sides_{double(width), double(height)} {}

  std::vector<YoloLabel> parse(std::string_view text) {
    std::vector<YoloLabel> labels;
    while (!text.empty()) {
      ++line_;
      std::string_view line = take_line(text);
      const std::string_view first = take_word(line);
      if (first.empty()) continue;
      YoloLabel& label = labels.emplace_back();
      label.category = class_of(first);
      read_values(line);
      if (values_.size() == kBoxValues) {
        set_box(label);
      } else if (values_.size() >= kMinPolygonValues && values_.size() % 2 == 0) {
        set_polygon(label);
      } else {
        fail(cat("has ", values_.size(),
                 " values after the class; a box has 4 (cx cy w h), and a "
                 "polygon has pairs x y, at least 3"));
      }
    }
    return labels;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(cat(name_, ":", line_, ": ", what));
  }
  // Removes the next word from a line; empty at its end.
  static std::string_view take_word(std::string_view& line) {
    constexpr const char* kBlanks = " \t\r";
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
    line.remove_prefix(word.size());
    return word;
  }
  std::int64_t class_of(std::string_view word) const {
    const auto number = parse_number<std::int64_t>(word);
    if (number && *number >= 0 && *number < classes_) return *number;
    fail(cat("the class must be a whole number from 0 to ", classes_ - 1, ", not ",
             config::shown(std::string(word))));
  }
  void read_values(std::string_view line) {
    values_.clear();
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
      const auto value = parse_number<double>(word);
      // In this form, NaN fails too.
      if (!value || !(*value >= -kRounding && *value <= 1 + kRounding)) {
        fail(cat("coordinates are numbers from 0 to 1, in units of the image's sides, not ",
                 config::shown(std::string(word))));
      }
      values_.push_back(*value);
    }
  }
  void set_box(YoloLabel& label) const {
    for (std::size_t i = 0; i < 2; ++i) {
      label.box[i] = (values_[i] - values_[i + 2] / 2) * sides_[i];
      label.box[i + 2] = values_[i + 2] * sides_[i];
    }
    label.area = label.box[2] * label.box[3];
  }
  void set_polygon(YoloLabel& label) const {
    std::array<double, 2> low = {HUGE_VAL, HUGE_VAL}, high = {-HUGE_VAL, -HUGE_VAL};
    const std::size_t count = values_.size();
    double twice_area = 0;
    for (std::size_t i = 0; i < count; i += 2) {
      const double x = values_[i] * sides_[0], y = values_[i + 1] * sides_[1];
      const double next_x = values_[(i + 2) % count] * sides_[0];
      const double next_y = values_[(i + 3) % count] * sides_[1];
      twice_area += x * next_y - next_x * y;
      low = {std::min(low[0], x), std::min(low[1], y)};
      high = {std::max(high[0], x), std::max(high[1], y)};
      label.corners.push_back(corner_at(x, y));
    }
    label.box = {low[0], low[1], high[0] - low[0], high[1] - low[1]};
    label.area = std::abs(twice_area) / 2;
  }

  const std::string& name_;
  std::int64_t classes_;
  std::array<double, 2> sides_;  // width, height in pixels
  std::int64_t line_ = 0;
  std::vector<double> values_;  // of the line
};

std::vector<std::string> names_of_map(const config::Node& map) {
  std::vector<std::string> names(map.members.size());
  std::vector<bool> has_name(names.size());
  for (const config::Member& member : map.members) {
    const auto index = parse_number<std::size_t>(member.key);
    if (!index || *index >= names.size() || has_name[*index]) {
      config::fail(member.where, "the classes must be numbered from 0 to ", names.size() - 1,
                   ", each once, not ", config::shown(member.key));
    }
    if (!member.value.is_scalar()) config::fail(member.value.where, "a name must be a text");
    has_name[*index] = true;
    names[*index] = member.value.text;
  }
  return names;
}

std::vector<std::string> names_of_yaml(const std::string& text, const std::string& file) {
  const config::Node root =
      config::parse_yaml(text, {std::make_shared<const std::string>(file), 1, 1, 0});
  if (const config::Node* shape = root.value_at("kpt_shape")) {
    // Lines with keypoints could be read as polygons.
    config::fail(shape->where,
                 "the labels have keypoints after each box, which cannot be read; write labels "
                 "without keypoints, and remove kpt_shape");
  }
  const config::Node* names = root.find("names");
  if (!names) config::fail(root.where, "has no list `names`; add it, or write classes.txt");
  if (names->is_map()) return names_of_map(*names);
  if (!names->is_list()) config::fail(names->where, "names must be a list or a map");
  std::vector<std::string> found;
  for (const config::Node& item : names->items) {
    if (!item.is_scalar()) config::fail(item.where, "a name must be a text");
    found.push_back(item.text);
  }
  return found;
}

std::vector<std::string> names_of_text(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t begin = line.find_first_not_of(" \t"), end = line.find_last_not_of(" \t");
    if (begin != line.npos) names.emplace_back(line.substr(begin, end + 1 - begin));
  }
  return names;
}

ImageInfo read_size(const fs::path& path, bool upright) {
  const FileSource file(path.string());
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(file.size(), kHeaderBytes)));
  file.read(0, bytes);
  try {
    return read_image_info(bytes, path.string(), {.upright = upright});
  } catch (const DataError&) {
    if (file.size() <= kHeaderBytes) throw;
  }
  return read_image_info(read_file(path.string()), path.string(), {.upright = upright});
}

// Collects the images of a folder and their labels.
class YoloReader {
 public:
  YoloReader(const fs::path& images, const fs::path& labels, const std::vector<std::string>& names,
             bool upright)
      : images_(images),
        labels_(labels),
        names_(names),
        upright_(upright),
        builder_(cat(labels.string(), " (YOLO labels)")) {}

  CocoAnnotations read() {
    for (std::size_t i = 0; i < names_.size(); ++i) add_category(i);
    LeftOut left_out;
    const std::vector<std::string> files = list_images(images_, left_out);
    if (files.empty()) throw DataError(cat(images_.string(), ": the folder has no images"));
    for (const std::string& file : files) add_image(file);
    if (used_.empty()) {
      throw DataError(cat(labels_.string(), ": no image of ", images_.string(),
                          " has a label file; expected ", label_file(files.front()).string()));
    }
    note_files(static_cast<std::int64_t>(files.size()), left_out);
    return builder_.finish();
  }

 private:
  fs::path label_file(const std::string& image) const {
    return labels_ / fs::path(image).replace_extension(".txt");
  }

  void add_category(std::size_t i) {
    coco::Record record;
    record.list = coco::RecordList::kCategories;
    record.id = static_cast<std::int64_t>(i);
    record.text = names_[i];
    record.set(coco::RecordField::kId);
    record.set(coco::RecordField::kName);
    builder_.add(record);
  }

  void add_image(const std::string& file) {
    const ImageInfo size = read_size(images_ / file, upright_);
    coco::Record record;
    record.list = coco::RecordList::kImages;
    record.id = ++image_id_;
    record.text = file;
    record.width = size.width;
    record.height = size.height;
    for (const auto field : {coco::RecordField::kId, coco::RecordField::kFileName,
                             coco::RecordField::kWidth, coco::RecordField::kHeight}) {
      record.set(field);
    }
    builder_.add(record);
    const fs::path label = label_file(file);
    std::error_code ignored;
    if (!fs::exists(label, ignored)) return;
    if (!used_.insert(label.string()).second) {
      throw DataError(cat(label.string(), ": is the label file of two images, one of them ",
                          (images_ / file).string(), "; rename one"));
    }
    const auto classes = static_cast<std::int64_t>(names_.size());
    const std::string text = read_text(label.string(), kMaxLabelBytes);
    for (const YoloLabel& found :
         parse_yolo_labels(text, label.string(), classes, size.width, size.height)) {
      add_label(found);
    }
  }

  void add_label(const YoloLabel& label) {
    coco::Record record;
    record.list = coco::RecordList::kAnnotations;
    record.id = ++annotation_id_;
    record.image_id = image_id_;
    record.category_id = label.category;
    record.box = label.box;
    record.area = label.area;
    for (const auto field :
         {coco::RecordField::kId, coco::RecordField::kImageId, coco::RecordField::kCategoryId,
          coco::RecordField::kBox, coco::RecordField::kArea}) {
      record.set(field);
    }
    if (!label.corners.empty()) {
      record.segmentation.kind = coco::SegmentationKind::kPolygons;
      record.segmentation.corners = label.corners;
      record.segmentation.ends = {label.corners.size()};
    }
    builder_.add(record);
  }

  // Tells the user about images without labels, and files that were not read.
  void note_files(std::int64_t images, LeftOut& left_out) const {
    const auto without = images - static_cast<std::int64_t>(used_.size());
    if (without > 0) {
      log_info(cat(labels_.string(), ": ", counted(without, "images"), " of ", images,
                   " without a label file; they count as empty"));
    }
    std::error_code error;
    fs::recursive_directory_iterator it(labels_, error);
    for (fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
      const std::string path = it->path().string();
      if (it->path().extension() != ".txt" || it->path().filename() == "classes.txt") continue;
      if (!used_.contains(path)) left_out.add("label without an image", "labels without an image");
    }
    if (left_out.count() > 0) log_warn_once(left_out.warning(images_.string()));
  }

  const fs::path &images_, &labels_;
  const std::vector<std::string>& names_;
  bool upright_;
  CocoAnnotationsBuilder builder_;
  std::int64_t image_id_ = 0, annotation_id_ = 0;
  std::unordered_set<std::string> used_;  // label files
};

}  // namespace

std::vector<YoloLabel> parse_yolo_labels(std::string_view text, const std::string& name,
                                         std::int64_t classes, std::int64_t width,
                                         std::int64_t height) {
  return LabelParser(name, classes, width, height).parse(text);
}

std::vector<std::string> read_yolo_names(const fs::path& file) {
  const std::string text = read_text(file.string(), kMaxLabelBytes);
  const bool is_yaml = file.extension() == ".yaml" || file.extension() == ".yml";
  std::vector<std::string> names;
  try {
    names = is_yaml ? names_of_yaml(text, file.string()) : names_of_text(text);
  } catch (const ConfigError& e) {
    throw DataError(e.what());
  }
  if (names.empty()) throw DataError(cat(file.string(), ": has no names of classes"));
  return names;
}

fs::path find_yolo_names(const fs::path& labels) {
  const fs::path here = fs::absolute(labels / "").lexically_normal().parent_path();
  for (const fs::path& folder : {here, here.parent_path(), here.parent_path().parent_path()}) {
    for (const char* name : {"data.yaml", "data.yml", "classes.txt"}) {
      std::error_code ignored;
      if (fs::is_regular_file(folder / name, ignored)) return folder / name;
    }
  }
  throw DataError(cat(labels.string(), ": found no names of classes; write them into ",
                      (labels / "classes.txt").string(), ", one a line"));
}

CocoAnnotations read_yolo_labels(const fs::path& images, const fs::path& labels,
                                 const std::vector<std::string>& names, bool upright) {
  return YoloReader(images, labels, names, upright).read();
}

}  // namespace dtn
