// Heads that predict classes and boxes at every token of a feature pyramid. All levels share the
// weights. A anchors belong to each token.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/models/detector.h"
#include "dtn/nn/scope.h"
#include "dtn/nn/token_conv.h"

namespace dtn {

class DenseHead {
 public:
  virtual ~DenseHead() = default;
  virtual DensePrediction forward(Context&, const Tokens& level) const = 0;
};

// The head of RetinaNet (Lin et al., Focal Loss for Dense Object Detection, ICCV 2017): for classes
// and for boxes, `convs` convolutions of 3 x 3 with ReLU and a last one. Parameters:
// {cls,reg}_convs.{i}.conv, retina_cls, retina_reg.
class RetinaHead final : public DenseHead {
 public:
  struct Options {
    std::int64_t channels, anchors, classes;
    int convs = 4;
  };
  RetinaHead(const Scope&, const Options&);
  DensePrediction forward(Context&, const Tokens& level) const override;

 private:
  std::vector<TokenConv> classes_, boxes_;  // the last ones predict
};

// The region proposal network (Ren et al., Faster R-CNN, NeurIPS 2015): one convolution of 3 x 3
// with ReLU, then one logit and one box for each anchor, by convolutions of 1 x 1. Parameters:
// rpn_conv, rpn_cls, rpn_reg.
class ProposalHead final : public DenseHead {
 public:
  ProposalHead(const Scope&, std::int64_t channels, std::int64_t anchors);
  DensePrediction forward(Context&, const Tokens& level) const override;

 private:
  TokenConv conv_, classes_, boxes_;
};

}  // namespace dtn
