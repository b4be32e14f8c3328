// ResNet (He et al., CVPR 2016) of bottleneck blocks, built and named as in torchvision ("v1.5":
// the 3 x 3 convolutions have the strides): a 7 x 7 convolution and a max pooling, four stages,
// mean pooling, a linear head `fc`. Every normalizer is norm.type.
//
// model.embed_dim gives the output channels of the stages, four times the channels inside their
// blocks. The stem has as many channels as the blocks of the first stage have inside.
#pragma once

#include "dtn/models/bottleneck_stages.h"

namespace dtn {

class ResNet : public BottleneckStages {
 public:
  // Throws ConfigError if the configuration is invalid.
  ResNet(const Scope&, const ModelConfig&);
};

}  // namespace dtn
