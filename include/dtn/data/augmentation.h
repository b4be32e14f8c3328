// What happens to single training images behind the crop: the policies that augment.policy names.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/config/schemas.h"
#include "dtn/core/registry.h"
#include "dtn/data/sample_key.h"
#include "dtn/io/image.h"

namespace dtn {

struct ImageOpsWorkspace;  // of our own policies

// Immutable, and used by several threads at once.
class Augmentation {
 public:
  virtual ~Augmentation() = default;

  // Changes an image of 1 or 3 channels in place, and keeps its size. What is random about it
  // depends on the key alone, so that neither workers nor a resumed run make a difference.
  virtual void apply(Image& image, const SampleKey& key, ImageOpsWorkspace& workspace) const = 0;
  // Whether anything happens to that sample at all.
  virtual bool concerns(const SampleKey&) const { return true; }
};

// What images are like.
struct AugmentationSetup {
  Interpolation interpolation;  // that they are resized by
  std::vector<float> mean;      // that they are normalized by, of pixels in [0, 1]; one per channel
  // Pixels are moved by one drawn of bilinear and bicubic for each operation, in place of the above.
  bool random_interpolation = false;
};

struct AugmentationRow {
  PolicySchema schema;
  // Of the whole text of augment.policy; null: nothing happens. Throws ConfigError that says what is
  // wrong with the text.
  std::function<std::unique_ptr<Augmentation>(const std::string& policy, const AugmentationSetup&)>
      make;

  const std::string& name() const { return schema.name; }
};

class AugmentationRegistry : public Registry<AugmentationRow> {
 public:
  explicit AugmentationRegistry(std::vector<AugmentationRow> rows)
      : Registry("augmentation policy", std::move(rows)) {}
  // The row that a policy begins with. Throws ConfigError that names all there are.
  const AugmentationRow& of(const std::string& policy) const {
    return at(policy.substr(0, policy.find('-')));
  }
};

// Ours.
const AugmentationRegistry& augmentation_registry();

}  // namespace dtn
