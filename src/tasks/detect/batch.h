// A batch of the task detect on the host.
#pragma once

#include <vector>

#include "dtn/core/fields.h"
#include "dtn/data/sample_key.h"
#include "dtn/data/sample_source.h"
#include "tasks/detect/detection.h"
#include "tasks/detect/samples.h"

namespace dtn {

// An image of a batch. Truths are in pixels of the resized image, and only training has them.
struct BatchImage {
  PixelSize size;      // resized
  PixelSize padded;    // to multiples of data.size_divisor
  PixelSize original;  // in the file
  std::vector<Box> boxes;
  std::vector<std::int64_t> classes, annotations;  // of each box; annotations are indices
  SampleKey key;
  bool mirrored = false;

  ResizedImage frame() const { return {size.height, size.width, original.height, original.width}; }
};

struct DetectionBatch {
  std::vector<BatchImage> images;
  PixelSize canvas;  // the padded images together: the largest height and the largest width

  // Images [i, i + 1) alone, without the padding of the others.
  DetectionBatch only(std::size_t i) const;
};

// Reads all fields but the pixels, which may be on a device; see DetectionSamples.
DetectionBatch read_batch(const Fields& fields, const DataConfig& data, std::uint64_t seed);

// Returns the normalised images of rows [first, first + images) of the field "pixels", padded with
// 0 to the canvas: [n, 3, H, W] float32 on the device of the pixels. `table` is
// normalization_table() there.
Tensor padded_images(const Fields& fields, std::int64_t first, const DetectionBatch& batch,
                     const Tensor& table);

}  // namespace dtn
