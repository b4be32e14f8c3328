// Pictures of samples and their nearest references: neighbors.png and neighbors.json.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/sample/normalization.h"
#include "dtn/config/train_config.h"
#include "dtn/core/metrics.h"
#include "dtn/core/tensor.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// Images of a split.
struct ShownImages {
  // Returns an image by its position in the split: [1, C, H, W] float32 on the host.
  std::function<Tensor(std::int64_t index)> image;
  std::function<std::string(std::int64_t index)> name;  // see Dataset::item_name()
  std::vector<std::string> class_names;                 // in label order; empty: unknown
};

// The images of a source with the field "image". The source must outlive them.
ShownImages shown_images(const SampleSource& source);

// Returns the normalization of images that a source makes of pixels. Empty if it passes on tensors,
// whose normalization is unknown, or has another number of channels than 1 or 3.
Normalization shown_normalization(const SampleSource& source, const ExperimentConfig& config,
                                  const DatasetRegistry& datasets);

// A row of the picture shows a sample, and then its nearest references. All images have one size,
// with gaps of 2 pixels.
struct NeighborSheet {
  std::string png;
  std::string json;  // "columns", "width" and "height" of an image, and "rows": names and classes
};

// Draws the examples. `normalization` is undone; without means it is unknown, and each image is
// shown from its least to its largest value. Large images are reduced.
NeighborSheet draw_neighbors(const std::vector<NeighborExample>& examples,
                             const ShownImages& evaluated, const ShownImages& references,
                             const Normalization& normalization);

}  // namespace dtn
