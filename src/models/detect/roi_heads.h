// Heads of Mask R-CNN (He et al., ICCV 2017) for regions of interest (RoIs), whose features come
// from ops::roi_align().
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/models/detector.h"
#include "dtn/nn/linear.h"
#include "dtn/nn/scope.h"
#include "dtn/nn/token_conv.h"

namespace dtn {

// Classes and boxes, by two hidden layers. Parameters: shared_fcs.{0,1}, fc_cls, fc_reg.
class RoiBoxHead {
 public:
  struct Options {
    std::int64_t channels, size;  // of a RoI's features: size x size tokens
    std::int64_t hidden, classes;
  };
  RoiBoxHead(const Scope&, const Options&);

  // x [R, size size, channels]
  RoiPrediction forward(Context&, const Variable& x) const;

 private:
  // The first layer reads the features as in MMDetection: channel by channel.
  Linear first_, second_, classes_, boxes_;
};

// A mask for each class, by convolutions and a transposed convolution that doubles the sides.
// Parameters: convs.{i}.conv, upsample, conv_logits.
class RoiMaskHead {
 public:
  struct Options {
    std::int64_t channels, classes;
    int convs = 4;
  };
  RoiMaskHead(const Scope&, const Options&);

  // x [R, size size, channels] -> logits [R, 2 size 2 size, K], in raster order
  Variable forward(Context&, const Variable& x, std::int64_t size) const;

 private:
  std::vector<TokenConv> convs_;
  Parameter *upsample_, *upsample_bias_;  // [channels, channels, 2, 2], [channels]
  TokenConv logits_;
};

}  // namespace dtn
