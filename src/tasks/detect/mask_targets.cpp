#include "tasks/detect/mask_targets.h"

#include <algorithm>

#include "dtn/core/check.h"
#include "kernels/detect/roi_align_taps.h"

namespace dtn {
namespace {

// Pixels of the file along an axis, with -1 for padding.
std::vector<std::int32_t> nearest_pixels(std::int64_t from, std::int64_t to, std::int64_t padded,
                                         bool mirrored) {
  std::vector<std::int32_t> index(static_cast<std::size_t>(padded), -1);
  for (std::int64_t i = 0; i < to; ++i) {
    const std::int64_t at = mirrored ? to - 1 - i : i;
    index[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(i * from / to);
  }
  return index;
}

// The cells of one axis of a box: weights of neighbouring pixels for each.
struct AxisTaps {
  std::vector<RoiRange> ranges;
  std::vector<float> weights;  // of all ranges, one after another

  AxisTaps(float begin, float end, std::int64_t cells, std::int64_t pixels) {
    const RoiAxis axis = roi_axis(begin, end, 1, cells, pixels);
    for (int p = 0; p < cells; ++p) {
      const RoiRange range = roi_range(axis, p);
      ranges.push_back(range);
      const std::size_t first = weights.size();
      weights.resize(first + static_cast<std::size_t>(range.count));
      roi_weights(axis, p, range, weights.data() + first);
    }
  }
};

}  // namespace

TruthMask::TruthMask(const Rle& mask, const BatchImage& image)
    : padded_(image.padded),
      width_(mask.width),
      pixels_(static_cast<std::size_t>(mask.height * mask.width)),
      rows_(nearest_pixels(mask.height, image.size.height, padded_.height, false)),
      columns_(nearest_pixels(mask.width, image.size.width, padded_.width, image.mirrored)) {
  DTN_CHECK(mask.height == image.original.height && mask.width == image.original.width,
            "a mask of ", mask.height, " x ", mask.width, " pixels is not that of its image");
  write_mask(mask, pixels_.data());
}

void TruthMask::write_target(const Box& box, std::int64_t cells, std::span<float> target) const {
  const Box cut =
      clip_box(box, static_cast<float>(padded_.width), static_cast<float>(padded_.height));
  const AxisTaps rows(cut.y1, cut.y2, cells, padded_.height);
  const AxisTaps columns(cut.x1, cut.x2, cells, padded_.width);
  std::ranges::fill(target, 0.0f);
  const float* row_weight = rows.weights.data();
  std::vector<float> line(static_cast<std::size_t>(cells));  // a row of pixels, by column cells
  for (std::int64_t p = 0; p < cells; ++p) {
    float* out = target.data() + p * cells;
    const RoiRange range = rows.ranges[static_cast<std::size_t>(p)];
    for (int i = 0; i < range.count; ++i, ++row_weight) {
      const std::int32_t row = rows_[static_cast<std::size_t>(range.first + i)];
      if (row < 0) continue;
      const std::uint8_t* pixels = pixels_.data() + row * width_;
      const float* weight = columns.weights.data();
      for (std::int64_t q = 0; q < cells; ++q) {
        const RoiRange reach = columns.ranges[static_cast<std::size_t>(q)];
        float sum = 0;
        for (int j = 0; j < reach.count; ++j, ++weight) {
          const std::int32_t column = columns_[static_cast<std::size_t>(reach.first + j)];
          if (column >= 0 && pixels[column] != 0) sum += *weight;
        }
        line[static_cast<std::size_t>(q)] = sum;
      }
      for (std::int64_t q = 0; q < cells; ++q) {
        out[q] += *row_weight * line[static_cast<std::size_t>(q)];
      }
    }
  }
  for (float& value : target) value = value >= 0.5f ? 1 : 0;
}

}  // namespace dtn
