// Gain and shift of the channels at the end of a normalizer: parameters, or constants if
// NormShape::affine is false.
#pragma once

#include <string_view>

#include "dtn/nn/normalizer.h"

namespace dtn {

// Returns a tensor filled with `value`, cached in `kept` for the type and device of the last use.
const Tensor& cached_constant(Tensor& kept, const Shape& shape, double value, DType dtype,
                              Device device);

// A value per channel, [C].
class ChannelParameter {
 public:
  // Adds the parameter `name`, which begins with `start`. Without NormShape::affine there is no
  // parameter, and every value is `otherwise`.
  ChannelParameter(const NormShape& shape, const Scope& scope, std::string_view name, double start,
                   double otherwise);

  // The parameter; undefined without one.
  Variable parameter() const { return parameter_ ? parameter_->variable : Variable(); }
  // The parameter, or a constant in the accumulator type of x on its device, without a gradient.
  Variable values_for(const Variable& x) const;
  // The same for a given type and device of the constant.
  Variable values(DType dtype, Device device) const;

 private:
  std::int64_t channels_;
  double otherwise_;
  Parameter* parameter_ = nullptr;
  mutable Tensor constant_;
};

// Gain and shift of each channel: the parameters `weight` and `bias`, or 1 and 0.
struct ChannelParameters {
  ChannelParameters(const NormShape& shape, const Scope& scope)
      : weight(shape, scope, "weight", 1, 1), bias(shape, scope, "bias", 0, 0) {}

  ChannelParameter weight, bias;
};

}  // namespace dtn
