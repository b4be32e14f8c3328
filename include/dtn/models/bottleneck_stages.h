// Common base of ResNet and RegNet: a stem, stages of bottleneck blocks, mean pooling and a linear
// head.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/bottleneck.h"

namespace dtn {

// The convolutional trunk that both families share.
class BottleneckStages : public Backbone {
 public:
  // Reads "image" [B, channels, height, width] of model.image_size.
  Features forward(Context&, const Fields&) override;
  Variable pooled(Context&, const Fields&) override;
  std::vector<FieldSpec> inputs() const override;
  std::vector<StageShape> stages() const override;
  std::vector<LayerInfo> layers() const override;
  std::vector<std::unique_ptr<ClassHead>> make_heads(const Scope&, int classes) const override;

 protected:
  // The layers, in the order of the pass.
  struct Parts {
    ConvNorm stem;
    bool max_pool;  // after the stem: 3 x 3 with stride 2
    std::vector<std::vector<Bottleneck>> stages;
    std::string head;  // path of its parameters
  };
  BottleneckStages(const ModelConfig& config, Parts parts);

 private:
  ModelConfig config_;
  Parts parts_;
};

}  // namespace dtn
