// Policies named by augment.policy, which change single training images after the crop.
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

struct ImageOpsWorkspace;  // for the library's policies

// A policy. Immutable; several threads use it at once.
class Augmentation {
 public:
  virtual ~Augmentation() = default;

  // Changes an image with 1 or 3 channels in place and keeps its size. Random choices depend only
  // on the key, so neither the workers nor a resumed run change them.
  virtual void apply(Image& image, const SampleKey& key, ImageOpsWorkspace& workspace) const = 0;
  // True if the policy changes this sample.
  virtual bool concerns(const SampleKey&) const { return true; }
};

// Preparation of the images that a policy changes.
struct AugmentationSetup {
  Interpolation interpolation;  // for resizing
  std::vector<float> mean;      // for normalization, of pixels in [0, 1]; one per channel
  // Each geometric operation draws bilinear or bicubic instead of using `interpolation`.
  bool random_interpolation = false;
};

// A policy in the registry.
struct AugmentationEntry {
  PolicySchema schema;
  // Makes the policy from the whole text of augment.policy; null: no change. Throws ConfigError
  // explaining an error in the text.
  std::function<std::unique_ptr<Augmentation>(const std::string& policy, const AugmentationSetup&)>
      make;

  const std::string& name() const { return schema.name; }
};

// The available policies.
class AugmentationRegistry : public Registry<AugmentationEntry> {
 public:
  explicit AugmentationRegistry(std::vector<AugmentationEntry> rows)
      : Registry("augmentation policy", std::move(rows)) {}
  // The row whose name starts the policy text. Throws ConfigError, listing all names, if unknown.
  const AugmentationEntry& of(const std::string& policy) const {
    return at(policy.substr(0, policy.find('-')));
  }
};

// The policies of the library.
const AugmentationRegistry& augmentation_registry();

}  // namespace dtn
