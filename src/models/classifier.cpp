#include "dtn/models/classifier.h"

namespace dtn {

Classifier::Classifier(const ModelConfig& config, std::uint64_t seed, DType dtype, Device device,
                       const ModelRegistry& models, const NormRegistry& norms)
    : config_(config),
      backbone_(models.at(config.family).make({store_, "", &norms}, config)),
      head_(Scope(store_, "head"), backbone_->stages().back().channels, config.num_classes) {
  store_.allocate(dtype, device);
  store_.initialize(seed);
}

Variable Classifier::forward(Context& ctx, const Fields& fields) {
  return head_.forward(ctx, backbone_->pooled(ctx, fields));
}

}  // namespace dtn
