// The residual block of ResNet (He et al., CVPR 2016) in the version with the stride in the 3 x 3
// convolution, and of RegNetY (Radosavovic et al., CVPR 2020), whose 3 x 3 convolution is grouped
// and followed by squeeze-and-excitation:
//     y = relu(shortcut(x) + conv3(se(conv2(conv1(x)))))
// Each convolution is followed by a normalizer, and conv1 and conv2 then by a ReLU. The shortcut is
// x, or a 1 x 1 convolution with its normalizer if the grid or the channels change.
#pragma once

#include <optional>

#include "dtn/nn/norm_layers.h"
#include "dtn/nn/observer.h"
#include "dtn/nn/token_conv.h"

namespace dtn {

// Squeeze-and-excitation (Hu, Shen and Sun, CVPR 2018): multiplies every channel of an image by a
// factor between 0 and 1, computed from the means of all channels:
//     y = x sigmoid(W2 relu(W1 mean(x) + b1) + b2)
// Parameters: fc1.{weight [S, C, 1, 1], bias [S]}, fc2.{weight [C, S, 1, 1], bias [C]}.
class SqueezeExcitation {
 public:
  // C = channels, S = inside.
  SqueezeExcitation(const Scope&, std::int64_t channels, std::int64_t inside);

  // x [B, T, C] -> [B, T, C]
  Variable forward(Context&, const Variable& x) const;

 private:
  TokenConv fc1_, fc2_;
};

// Released names of a convolution and the normalizer after it.
enum class ConvNames {
  kTorchvision,  // conv1 and bn1; downsample.0 and downsample.1
  kTimm,         // conv1.conv and conv1.bn; downsample.conv and downsample.bn
};

class Bottleneck {
 public:
  struct Options {
    std::int64_t in, inside, out;  // channels: input, after conv1 and conv2, after conv3
    std::int64_t stride = 1;
    std::int64_t groups = 1;   // of conv2
    std::int64_t squeeze = 0;  // channels inside squeeze-and-excitation; 0: none
    NormConfig norm;
    std::int64_t heads = 1;  // of the normalizers, see NormShape
    double eps = kDefaultNormEps;
    ConvNames names = ConvNames::kTorchvision;
  };
  // The gain of the last normalizer starts at 0, so the block starts as its shortcut.
  Bottleneck(const Scope&, const Options&);

  // x [B, h w, in] -> [B, h' w', out], h' = ceil(h / stride)
  Tokens forward(Context&, const Tokens&) const;
  // forward(), run again in the backward pass if the mode asks for it (run_block()).
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
