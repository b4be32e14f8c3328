// Images for the features of a frozen model, from a data set or from a file of tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtn/data/dataset.h"
#include "dtn/tasks/registries.h"

namespace dtn {

struct ImageBatch {
  Fields fields;                      // "image", on the device
  Tensor labels;                      // [n] int64 on the host; undefined: unknown
  std::vector<std::int64_t> indices;  // [n], in the data set or the file
};

class ImageStream {
 public:
  virtual ~ImageStream() = default;

  // One line for messages.
  virtual std::string description() const = 0;
  virtual std::int64_t size() const = 0;
  // [channels, height, width] of the images.
  virtual Shape shape() const = 0;
  // Labels of all images, [size] int64; undefined: unknown.
  virtual Tensor labels() const = 0;
  // False if each epoch crops the images anew.
  virtual bool is_fixed() const { return true; }
  // False if the images are stored as tensors, of which only their maker knows the normalisation.
  virtual bool is_normalized() const { return true; }
  // Number of damaged images so far, which the batches leave out.
  virtual std::int64_t damaged() { return 0; }
  // Returns one image, by its index, without random crops: [1, channels, height, width] float32 on
  // the host.
  virtual Tensor image(std::int64_t index) const = 0;
  // Name of an image within the data set or the file: see Dataset::item_name().
  virtual std::string name(std::int64_t index) const = 0;
  // Class names in label order; empty: unknown.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Calls `use` for every batch of an epoch.
  virtual void for_each(std::int64_t epoch, const std::function<void(const ImageBatch&)>& use) = 0;
};

// Destination of the batches, and their size.
struct StreamOptions {
  Device device = kCpu;
  std::int64_t batch = 64;
};

// Preparation of the images of a data set: as for evaluation, in order; or random crops of 0.08 to
// 1 of the area, resized by bilinear interpolation, and flips, in a new order in each epoch unless
// data.shuffle is off. Images that are stored as tensors are used unchanged.
enum class ImagePreparation { kEvaluation, kRandomCrops };

// Streams the images of a data set; see open_training_images() and open_validation_images().
std::unique_ptr<ImageStream> stream_of(std::shared_ptr<const Dataset> images,
                                       const ExperimentConfig& config, ImagePreparation preparation,
                                       const StreamOptions& options, const Registries& registries);

// Opens a file of ready images, used in their order: `images` [N, C, H, W] of any size that the
// model takes, and `labels`. Throws DataError as read_input_file() does.
std::unique_ptr<ImageStream> open_image_file(const std::string& path, const ModelConfig& model,
                                             const StreamOptions& options);

// Computes the features of a batch, [n, width] float32 on the host.
using FeatureFunction = std::function<Tensor(const ImageBatch&)>;

struct FeatureSet {
  Tensor features;                    // [n, width] float32
  Tensor labels;                      // [n] int64; undefined: unknown
  std::vector<std::int64_t> indices;  // [n], see ImageBatch
};

// Collects the features of all images of epoch 0, without the damaged ones. `progress` is called
// with the number of images done.
FeatureSet collect_features(ImageStream& images, std::int64_t width,
                            const FeatureFunction& features,
                            const std::function<void(std::int64_t)>& progress);

}  // namespace dtn
