// A convolution of images. Parameters: weight [out, in / groups, kernel_h, kernel_w], which decays,
// and bias [out].
#pragma once

#include <array>

#include "dtn/nn/scope.h"
#include "dtn/ops/primitive.h"

namespace dtn {

struct Conv2d {
  struct Options {
    std::array<std::int64_t, 2> kernel;  // height, width
    std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0};
    std::int64_t groups = 1;  // equal to `in`: a depthwise convolution
    bool bias = true;
    CustomInit init{};  // of the weight; unset: init_convolution(). A bias starts at 0.
  };
  Conv2d(const Scope&, std::int64_t in, std::int64_t out, const Options&);

  // x [B, in, height, width] -> [B, out, height', width'], see ops::convolution().
  Variable forward(Context&, const Variable& x) const;

  Parameter* weight;
  Parameter* bias = nullptr;
  primitive::Conv2d how;
};

// Initializer with the variance of PyTorch's convolutions, 1 / (3 fan_in). fan_in is the number of
// inputs of one output.
CustomInit init_convolution(std::int64_t fan_in);

}  // namespace dtn
