// RegNetY (Radosavovic et al., "Designing network design spaces", CVPR 2020), built and named as in
// timm: a 3 x 3 convolution, four stages of bottleneck blocks with grouped convolutions and
// squeeze-and-excitation, mean pooling, a linear head `head.fc`. The teacher of DeiT and LeViT is a
// RegNetY.
//
// model.embed_dim gives the channels of the stages, inside their blocks too; model.num_heads gives
// the groups of their convolutions.
#pragma once

#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/bottleneck.h"

namespace dtn {

class RegNet : public Backbone {
 public:
  // Throws ConfigError if the configuration is invalid.
  RegNet(const Scope&, const ModelConfig&);

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
ModelRow regnet_row();

}  // namespace dtn
