// The residual block of ResNet (He et al., CVPR 2016) in the version whose 3 x 3 convolution has
// the stride, and of RegNetY (Radosavovic et al., CVPR 2020), whose 3 x 3 convolution is grouped
// and followed by squeeze-and-excitation:
//   y = relu(shortcut(x) + conv3(se(conv2(conv1(x)))))
// Each convolution has a normalizer behind it, conv1 and conv2 a ReLU behind that. The shortcut is
// x, or a 1 x 1 convolution with its normalizer where the grid or the channels change.
#pragma once

#include <optional>

#include "dtn/nn/norm_layers.h"
#include "dtn/nn/observer.h"
#include "dtn/nn/squeeze_excitation.h"

namespace dtn {

// How releases call a convolution and the normalizer behind it.
enum class ConvNames {
  kTorchvision,  // conv1 and bn1; downsample.0 and downsample.1
  kTimm,         // conv1.conv and conv1.bn; downsample.conv and downsample.bn
};

class Bottleneck {
 public:
  struct Options {
    std::int64_t in, inside, out;  // channels ahead of, behind conv1 and conv2, and behind conv3
    std::int64_t stride = 1;
    std::int64_t groups = 1;   // of conv2
    std::int64_t squeeze = 0;  // channels inside squeeze-and-excitation; 0: there is none
    NormConfig norm;
    std::int64_t heads = 1;  // of the normalizers, see NormShape
    double eps = kDefaultNormEps;
    ConvNames names = ConvNames::kTorchvision;
  };
  // The gain of the last normalizer starts at 0, so that the block starts as its shortcut.
  Bottleneck(const Scope&, const Options&);

  // x [B, h w, in] -> [B, h' w', out], h' = ceil(h / stride)
  Tokens forward(Context&, const Tokens&) const;
  // The same, run again in the backward pass where the mode says so (run_block()).
  Tokens run(Context&, const Tokens&) const;
  LayerInfo info() const { return {.paths = {path_}, .norms = {}}; }

 private:
  Tokens unseen_forward(Context&, const Tokens&) const;
  TokenGrid grid_behind(const TokenGrid&) const;

  std::string path_;
  std::int64_t stride_;
  ConvNorm conv1_, conv2_;
  std::optional<SqueezeExcitation> squeeze_;
  ConvNorm conv3_;
  std::optional<ConvNorm> shortcut_;
};

}  // namespace dtn
