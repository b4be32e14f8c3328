// The feature pyramid of a detector (Lin et al., Feature Pyramid Networks for Object Detection,
// CVPR 2017). With the features C_i of some stages of a backbone, each coarser than the one before:
//    M_i = lateral_i C_i + upsampled M_(i + 1)
//    P_i = conv_i M_i
// lateral_i is a convolution of 1 x 1, conv_i one of 3 x 3, and upsampling takes the nearest token.
// Parameters have MMDetection's names: lateral_convs.{i}.conv, fpn_convs.{i}.conv.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/nn/scope.h"
#include "dtn/nn/token_conv.h"

namespace dtn {

class FeaturePyramid {
 public:
  // Levels above those of the backbone.
  enum class Top {
    // Two convolutions of 3 x 3 with stride 2: the first on the coarsest C, the second on its
    // result. RetinaNet.
    kConvolutions,
    // Every second row and column of the coarsest P. Mask R-CNN.
    kEverySecond,
  };
  struct Options {
    std::vector<std::int64_t> channels;  // of each C, the coarsest last
    std::int64_t width = 256;            // channels of each P
    Top top;
  };
  FeaturePyramid(const Scope&, const Options&);

  // The levels P of the features C, the coarsest last: one for each C, and those of the top.
  Features forward(Context&, const Features& c) const;

 private:
  Top top_;
  std::vector<TokenConv> lateral_, conv_;
};

}  // namespace dtn
