// The truths that detectors learn from: rules that leave out images and annotations.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/coco/annotations.h"

namespace dtn {

// Images with a side below this number of pixels are left out of training.
inline constexpr std::int64_t kMinTrainingSide = 32;

// Images and annotations of a training split. An image is left out if it has no annotation of a
// listed category, where a crowd counts, or if it has a side below kMinTrainingSide. An annotation
// is left out for the first of these reasons: `ignore` is set, the box does not overlap the image,
// area <= 0, width or height < 1, the category is not listed, or it is a crowd.
struct TrainingTruths {
  std::vector<std::int32_t> images;       // indices, ascending
  std::vector<std::int32_t> annotations;  // indices, image by image, each in file order
  std::vector<std::size_t> ends;          // end of the annotations of each of `images`

  // Images that are left out.
  std::int64_t small_images = 0, images_without_truths = 0;
  // Annotations of `images` that are left out.
  std::int64_t ignored = 0, outside = 0, without_area = 0, thin = 0, unknown_category = 0,
               crowds = 0;

  // Annotations of the i-th of `images`.
  std::span<const std::int32_t> of(std::size_t i) const {
    const std::size_t begin = i > 0 ? ends[i - 1] : 0;
    return std::span(annotations).subspan(begin, ends[i] - begin);
  }
};

TrainingTruths training_truths(const CocoAnnotations& all);

// Returns a sentence for the user: the numbers of images and truths, and of those left out.
std::string description_of(const TrainingTruths& truths);

}  // namespace dtn
