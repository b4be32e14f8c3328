// RegNetY (Radosavovic et al., "Designing network design spaces", CVPR 2020), built and named as in
// timm: a 3 x 3 convolution, four stages of bottleneck blocks with grouped convolutions and
// squeeze-and-excitation, mean pooling, a linear head `head.fc`. The teacher of DeiT and LeViT is a
// RegNetY.
//
// model.embed_dim gives the channels of the stages, inside their blocks too; model.num_heads gives
// the groups of their convolutions.
#pragma once

#include "dtn/models/bottleneck_stages.h"

namespace dtn {

class RegNet : public BottleneckStages {
 public:
  // Throws ConfigError if the configuration is invalid.
  RegNet(const Scope&, const ModelConfig&);
};

}  // namespace dtn
