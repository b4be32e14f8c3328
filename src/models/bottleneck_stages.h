// Common part of ResNet and RegNet: a stem, stages of bottleneck blocks, mean pooling and a linear
// head.
#pragma once

#include <string>
#include <vector>

#include "dtn/nn/bottleneck.h"
#include "models/image_models.h"

namespace dtn {

class BottleneckStages : public ImageBackbone {
 public:
  // The layers, in the order of the pass.
  struct Parts {
    ConvNorm stem;
    bool max_pool;  // after the stem: 3 x 3 with stride 2
    std::vector<std::vector<Bottleneck>> stages;
    std::string head;  // path of its parameters
  };
  // `make` is called after the check.
  BottleneckStages(const Scope& scope, const ModelConfig& config, ModelCheck check,
                   Parts (*make)(const Scope&, const ModelConfig&))
      : ImageBackbone(scope, config, check), parts_(make(scope, config)) {}

  Features forward(Context&, const Fields&) override;
  Variable pooled(Context&, const Fields&) override;
  std::vector<StageShape> stages() const override;
  // Any image has at least one pixel after each stage.
  std::string size_problem(const ImageSize&) const override;
  std::vector<LayerInfo> layers() const override;
  std::vector<ClassHead> make_heads(const Scope&, int classes) const override;

 private:
  Parts parts_;
};

}  // namespace dtn
