#include "data/coco/training_truths.h"

#include <algorithm>

#include "core/format.h"

namespace dtn {
namespace {

bool overlaps(const CocoAnnotation& a, const CocoImage& image) {
  const auto [x, y, width, height] = a.box;
  const double across = std::min(x + width, static_cast<double>(image.width)) - std::max(x, 0.0);
  const double down = std::min(y + height, static_cast<double>(image.height)) - std::max(y, 0.0);
  return across > 0 && down > 0;
}

// Returns the count of the reason why an annotation is left out, or nullptr for a truth.
std::int64_t* reason_against(const CocoAnnotation& a, const CocoImage& image,
                             TrainingTruths& truths) {
  if (a.ignore) return &truths.ignored;
  if (!overlaps(a, image)) return &truths.outside;
  if (!(a.area > 0)) return &truths.without_area;
  if (a.box[2] < 1 || a.box[3] < 1) return &truths.thin;
  if (a.category < 0) return &truths.unknown_category;
  return a.crowd ? &truths.crowds : nullptr;
}

}  // namespace

TrainingTruths training_truths(const CocoAnnotations& all) {
  TrainingTruths truths;
  for (std::size_t i = 0; i < all.images().size(); ++i) {
    const CocoImage& image = all.images()[i];
    const auto annotations = all.of_image(i);
    const bool has_truth = std::ranges::any_of(annotations, [&](std::int32_t k) {
      return all.annotations()[static_cast<std::size_t>(k)].category >= 0;
    });
    if (!has_truth) {
      ++truths.images_without_truths;
      continue;
    }
    if (std::min(image.width, image.height) < kMinTrainingSide) {
      ++truths.small_images;
      continue;
    }
    truths.images.push_back(static_cast<std::int32_t>(i));
    for (const std::int32_t k : annotations) {
      std::int64_t* reason =
          reason_against(all.annotations()[static_cast<std::size_t>(k)], image, truths);
      if (reason) {
        ++*reason;
      } else {
        truths.annotations.push_back(k);
      }
    }
    truths.ends.push_back(truths.annotations.size());
  }
  return truths;
}

std::string description_of(const TrainingTruths& truths) {
  struct Reason {
    std::int64_t count;
    const char *plural, *why;
  };
  const Reason reasons[] = {
      {truths.images_without_truths, "images", " without truths"},
      {truths.small_images, "images", " with a side under 32 pixels"},
      {truths.crowds, "crowds", ""},
      {truths.ignored, "annotations", " to ignore"},
      {truths.outside, "annotations", " outside of the image"},
      {truths.without_area, "annotations", " without area"},
      {truths.thin, "annotations", " under 1 pixel wide or high"},
      {truths.unknown_category, "annotations", " of a category that is not listed"}};
  std::string left_out;
  for (const Reason& r : reasons) {
    if (r.count == 0) continue;
    left_out += (left_out.empty() ? "" : ", ") + counted(r.count, r.plural) + r.why;
  }
  std::string text = counted(static_cast<std::int64_t>(truths.images.size()), "images") + " with " +
                     counted(static_cast<std::int64_t>(truths.annotations.size()), "truths");
  return left_out.empty() ? text : text + "; left out: " + left_out;
}

}  // namespace dtn
