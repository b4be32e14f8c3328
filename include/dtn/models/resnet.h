// ResNet (He et al., CVPR 2016) of bottleneck blocks, as torchvision builds and names it ("v1.5":
// the 3 x 3 convolutions have the strides): a 7 x 7 convolution and a max pooling, four stages, the
// mean, a linear head `fc`. Every normalizer is norm.type.
//
// model.embed_dim are the channels that the stages put out, four times those inside their blocks;
// the stem has as many as the first stage has inside.
#pragma once

#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/bottleneck.h"

namespace dtn {

class ResNet : public Backbone {
 public:
  // Throws ConfigError when the configuration makes no model.
  ResNet(const Scope&, const ModelConfig&);

  // Reads "image" [B, channels, height, width] of model.image_size.
  Features forward(Context&, const Fields&) override;
  Variable pooled(Context&, const Fields&) override;
  std::vector<FieldSpec> inputs() const override;
  std::vector<StageShape> stages() const override;
  std::vector<LayerInfo> layers() const override;
  std::vector<std::unique_ptr<ClassHead>> make_heads(const Scope&, int classes) const override;

 private:
  ModelConfig config_;
  ConvNorm stem_;
  std::vector<std::vector<Bottleneck>> stages_;
};

// The family's row of the registry.
ModelRow resnet_row();

}  // namespace dtn
