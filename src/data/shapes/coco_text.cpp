#include "data/shapes/coco_text.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "core/format.h"
#include "data/coco/rle.h"
#include "dtn/core/check.h"

namespace dtn::shapes {
namespace {

// Ids of the forms: as in COCO's own files, they neither begin at 0 nor follow one another.
constexpr std::array<int, kForms> kCategoryIds = {23, 4, 9};
constexpr std::array<const char*, kForms> kCategoryNames = {"disc", "square", "triangle"};

// Ids of images have gaps, and those of the two splits differ.
std::int64_t image_id(std::uint32_t split, std::uint32_t number) {
  return 1003 + 6 * std::int64_t{split} + 17 * std::int64_t{number};
}

// Returns n / parts, with the fewest decimals that are exact. `parts` is a power of 2.
std::string exact(std::int64_t n, std::int64_t parts) {
  std::string text = cat(n / parts);
  std::int64_t rest = n % parts;
  if (rest != 0) text += '.';
  for (; rest != 0; rest = rest * 10 % parts) text += static_cast<char>('0' + rest * 10 / parts);
  return text;
}

std::string pixels(std::int64_t units) { return exact(units, kUnits); }

// Returns twice the area of a polygon, in 64ths of a pixel.
std::int64_t double_area(const std::vector<Point>& corners) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Point a = corners[i], b = corners[(i + 1) % corners.size()];
    sum += std::int64_t{a.x} * b.y - std::int64_t{b.x} * a.y;
  }
  return std::abs(sum);
}

// Returns the run lengths of a rectangle of ones in a mask of the scene's size.
std::string runs_text(const ImageRegion& region, const Scene& scene) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(scene.width) * scene.height);
  for (int y = region.y0; y < region.y1; ++y) {
    const auto row = mask.begin() + static_cast<std::ptrdiff_t>(y) * scene.width;
    std::fill(row + region.x0, row + region.x1, std::uint8_t{1});
  }
  std::string text;
  for (std::uint32_t run : rle_of_mask(mask.data(), scene.height, scene.width).runs) {
    text += cat(text.empty() ? "" : ", ", run);
  }
  return text;
}

}  // namespace

std::string CocoText::add(const Scene& scene, std::uint32_t split, std::uint32_t number) {
  const std::int64_t id = image_id(split, number);
  const std::string file = format("%012lld.png", static_cast<long long>(id));
  images_ += cat(images_.empty() ? "" : ",", "\n  {\"id\": ", id, ", \"file_name\": \"", file,
                 "\", \"width\": ", scene.width, ", \"height\": ", scene.height, "}");
  if (scene.crowd) add_crowd(*scene.crowd, scene, id);
  for (const Shape& shape : scene.shapes) add_shape(shape, id);
  return file;
}

void CocoText::begin_annotation(std::int64_t image, Form form) {
  annotations_ +=
      cat(annotations_.empty() ? "" : ",", "\n  {\"id\": ", ++last_id_, ", \"image_id\": ", image,
          ", \"category_id\": ", kCategoryIds[static_cast<int>(form)], ", ");
}

void CocoText::add_shape(const Shape& shape, std::int64_t image) {
  const auto [left, right] = std::ranges::minmax(shape.corners, {}, &Point::x);
  const auto [top, bottom] = std::ranges::minmax(shape.corners, {}, &Point::y);
  begin_annotation(image, shape.form);
  annotations_ += cat("\"bbox\": [", pixels(left.x), ", ", pixels(top.y), ", ",
                      pixels(right.x - left.x), ", ", pixels(bottom.y - top.y),
                      "], \"area\": ", exact(double_area(shape.corners), 2 * kUnits * kUnits),
                      ", \"iscrowd\": 0, \"segmentation\": [[");
  for (std::size_t i = 0; i < shape.corners.size(); ++i) {
    annotations_ +=
        cat(i > 0 ? ", " : "", pixels(shape.corners[i].x), ", ", pixels(shape.corners[i].y));
  }
  annotations_ += "]]}";
}

void CocoText::add_crowd(const Crowd& crowd, const Scene& scene, std::int64_t image) {
  const ImageRegion& r = crowd.region;
  const int width = r.x1 - r.x0, height = r.y1 - r.y0;
  begin_annotation(image, crowd.form);
  annotations_ +=
      cat("\"bbox\": [", r.x0, ", ", r.y0, ", ", width, ", ", height,
          "], \"area\": ", width * height, ", \"iscrowd\": 1, \"segmentation\": {", "\"size\": [",
          scene.height, ", ", scene.width, "], \"counts\": [", runs_text(r, scene), "]}}");
}

std::string CocoText::finish() const {
  std::string categories;
  for (int form = 0; form < kForms; ++form) {
    categories += cat(form > 0 ? "," : "", "\n  {\"id\": ", kCategoryIds[form], ", \"name\": \"",
                      kCategoryNames[form], "\", \"supercategory\": \"shape\"}");
  }
  return cat(
      "{\"info\": {\"description\": \"generated shapes\"},\n\"licenses\": [],\n\"images\": [",
      images_, "\n],\n\"categories\": [", categories, "\n],\n\"annotations\": [", annotations_,
      "\n]}\n");
}

}  // namespace dtn::shapes
