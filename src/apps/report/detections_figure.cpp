#include "apps/report/detections_figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/format.h"
#include "data/coco/rle.h"
#include "dtn/core/check.h"
#include "dtn/io/image.h"
#include "io/file.h"
#include "io/image/image_encode.h"
#include "plot/chart_figure.h"
#include "plot/draw_objects.h"
#include "plot/text.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxFileBytes = 64 << 20;
constexpr int kJpegQuality = 90;

using PrecisionRow = std::array<double, PrecisionCurves::kRecalls>;

double mean_of(const PrecisionRow& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double threshold_at(std::size_t index) { return 0.5 + 0.05 * static_cast<double>(index); }

plot::Series line_of(const PrecisionRow& precision, const std::string& label, std::size_t style,
                     double weight) {
  plot::Series line{.label = label, .style = style, .weight = weight};
  for (std::size_t r = 0; r < precision.size(); ++r) {
    line.x.push_back(static_cast<double>(r));
    line.y.push_back(100 * precision[r]);
  }
  return line;
}

PrecisionRow mean_over_thresholds(const PrecisionCurves& curves) {
  PrecisionRow mean{};
  for (const PrecisionRow& row : curves.precision) {
    for (std::size_t r = 0; r < mean.size(); ++r) {
      mean[r] += row[r] / static_cast<double>(PrecisionCurves::kThresholds);
    }
  }
  return mean;
}

plot::Table table_of(const PrecisionCurves& curves) {
  plot::Table table{{"IoU", "AP (%)", "precision (%) at recall 20 %", "at 50 %", "at 80 %"}, {}};
  const auto add = [&](const std::string& name, const PrecisionRow& row) {
    std::vector<std::string> cells{name, format("%.2f", 100 * mean_of(row))};
    for (const std::size_t recall : {20, 50, 80}) {
      cells.push_back(format("%.2f", 100 * row[recall]));
    }
    table.rows.push_back(std::move(cells));
  };
  for (std::size_t t = 0; t < PrecisionCurves::kThresholds; ++t) {
    add(format("%.2f", threshold_at(t)), curves.precision[t]);
  }
  add("mean", mean_over_thresholds(curves));
  return table;
}

// "2 objects", "2 objects, 1 group"
std::string truths_text(const std::vector<ExampleObject>& truths) {
  const auto groups = std::ranges::count_if(truths, &ExampleObject::crowd);
  const auto objects = static_cast<std::int64_t>(truths.size()) - groups;
  std::string text = objects == 1 ? "1 object" : cat(objects, " objects");
  if (groups > 0) text += groups == 1 ? ", 1 group" : cat(", ", groups, " groups");
  return text;
}

// Returns the picture with objects on it, as the bytes of a JPEG file. Throws DataError for a
// damaged mask.
std::string drawn(const Image& picture, const DetectionExample& image,
                  const std::vector<ExampleObject>& objects, const DetectionsFile& file,
                  bool scored) {
  const float scale_x = static_cast<float>(picture.width) / static_cast<float>(image.width);
  const float scale_y = static_cast<float>(picture.height) / static_cast<float>(image.height);
  std::vector<Rle> masks;
  masks.reserve(objects.size());  // the objects keep views of the runs
  std::vector<plot::DrawnObject> shown;
  for (const ExampleObject& object : objects) {
    const auto at = [&](std::size_t i, float scale) {
      return static_cast<float>(object.box[i]) * scale;
    };
    plot::DrawnObject out{.x1 = at(0, scale_x),
                          .y1 = at(1, scale_y),
                          .x2 = at(2, scale_x),
                          .y2 = at(3, scale_y),
                          .label = object.label,
                          .text = file.class_name(object.label),
                          .score = static_cast<float>(object.score),
                          .dashed = object.crowd};
    if (object.crowd) out.text = "group: " + out.text;
    if (scored) out.number = format("%.2f", object.score);
    if (!object.mask.empty()) {
      masks.push_back(rle_of_text(image.height, image.width, object.mask));
      out.mask = {.height = image.height, .width = image.width, .runs = masks.back().runs};
    }
    shown.push_back(std::move(out));
  }
  std::vector<std::byte> bytes;
  encode_jpeg(plot::draw_objects(picture, shown), kJpegQuality, bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<plot::GalleryPicture> row_of(const DetectionsFile::Shown& shown,
                                         const DetectionsFile& file, const fs::path& folder) {
  const fs::path path = folder / shown.picture;
  const Image picture = decode_image(read_file(path.string(), kMaxFileBytes), path.string());
  const DetectionExample& image = shown.image;
  const std::string truths = truths_text(image.truths);
  const std::size_t count = image.detections.size();
  const std::string detections = count == 1 ? "1 detection" : cat(count, " detections");
  std::vector<plot::GalleryPicture> row(2);
  row[0] = {.png = drawn(picture, image, image.truths, file, false),
            .description = cat("truth of ", shown.name, ": ", truths),
            .text = "Truth: " + truths,
            .note = shown.name};
  row[1] = {.png = drawn(picture, image, image.detections, file, true),
            .description = cat(detections, " in ", shown.name),
            .text = detections,
            .note = format("score at least %.1f", kShownScore)};
  return row;
}

}  // namespace

std::optional<plot::Figure> precision_figure(const PrecisionCurves& curves) {
  if (!(curves.ap >= 0)) return std::nullopt;
  const bool masks = curves.name == "segm";
  const std::string kind = masks ? "masks" : "boxes";
  plot::Chart chart{.title = cat("Precision and recall of ", kind),
                    .subtitle = format("AP %.1f %%; means over the classes", 100 * curves.ap)};
  chart.x = {.label = "recall (%)", .data = plot::kPercent, .round = false};
  chart.y = {.label = "precision (%)", .data = plot::kPercent, .limit = plot::kPercent};
  std::size_t style = 0;
  for (const std::size_t t : {0, 5, 9}) {
    const PrecisionRow& row = curves.precision[t];
    chart.series.push_back(line_of(
        row, format("IoU %.2f: AP %.1f %%", threshold_at(t), 100 * mean_of(row)), style++, 1));
  }
  const PrecisionRow mean = mean_over_thresholds(curves);
  chart.series.push_back(
      line_of(mean, format("mean of 0.50 to 0.95: AP %.1f %%", 100 * mean_of(mean)), 6, 1.5));
  plot::Figure figure = plot::chart_figure(
      masks ? "precision_masks" : "precision_boxes", chart,
      cat("precision of ", kind, format(" over recall, AP %.1f percent", 100 * curves.ap)));
  figure.caption =
      cat("A detection is right if the IoU of its ", masks ? "mask" : "box",
          " with a truth of its class reaches the threshold. From the left to the right the score "
          "that a detection needs falls: more objects are found, and more detections are wrong. "
          "The area below a line is its AP.");
  figure.table = table_of(curves);
  return figure;
}

plot::Gallery detections_gallery(const DetectionsFile& file, const fs::path& folder) {
  plot::Gallery gallery{
      .name = "detections",
      .title = "Truth and detections",
      .caption = cat("Validation images with their truth on the left or above, and the detections "
                     "of the best evaluation, after step ",
                     file.step,
                     ". A class has one colour. A dashed frame holds a group of objects that count "
                     "neither way."),
      .rows = {},
      .large = true};
  for (const DetectionsFile::Shown& shown : file.images) {
    try {
      gallery.rows.push_back(row_of(shown, file, folder));
    } catch (const DataError&) {
      continue;
    }
  }
  return gallery;
}

std::vector<plot::Section> detections_sections(const fs::path& run) {
  const fs::path path = run / kDetectionsFile;
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  plot::Section pictures{.title = "Detections"}, curves{.title = "Precision and recall"};
  try {
    const DetectionsFile file =
        read_detections(read_text(path.string(), kMaxFileBytes), path.string());
    plot::Gallery gallery = detections_gallery(file, run / kDetectionsFolder);
    if (!gallery.rows.empty()) pictures.galleries.push_back(std::move(gallery));
    for (const PrecisionCurves& kind : file.curves) {
      if (auto figure = precision_figure(kind)) curves.figures.push_back(std::move(*figure));
    }
  } catch (const DataError&) {
    return {};
  }
  std::vector<plot::Section> sections;
  if (!pictures.galleries.empty()) sections.push_back(std::move(pictures));
  if (!curves.figures.empty()) sections.push_back(std::move(curves));
  return sections;
}

}  // namespace dtn
