#include "nn/norms/affine.h"

#include "dtn/nn/initializers.h"

namespace dtn {
namespace {

Initializer start_at(double value) {
  if (value == 0) return InitKind::kZeros;
  if (value == 1) return InitKind::kOnes;
  return constant_value(value);
}

}  // namespace

const Tensor& cached_constant(Tensor& kept, const Shape& shape, double value, DType dtype,
                              Device device) {
  if (!kept.defined() || kept.dtype() != dtype || !(kept.device() == device)) {
    kept = Tensor::full(shape, dtype, value).to(device);
  }
  return kept;
}

ChannelParameter::ChannelParameter(const NormShape& shape, const Scope& scope,
                                   std::string_view name, double start, double otherwise)
    : channels_(shape.channels), otherwise_(otherwise) {
  if (!shape.affine) return;
  parameter_ = scope.weight(name, {channels_}, start_at(start), Decay::kNo);
}

Variable ChannelParameter::values(DType dtype, Device device) const {
  if (parameter_) return parameter_->variable;
  return Variable(cached_constant(constant_, {channels_}, otherwise_, dtype, device));
}

Variable ChannelParameter::values_for(const Variable& x) const {
  return values(accumulator_of(x.dtype()), x.device());
}

}  // namespace dtn
