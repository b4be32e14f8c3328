#include "dtn/nn/initializers.h"

#include <cmath>

namespace dtn {

CustomInit constant_value(double value) {
  return [value](Tensor& tensor, std::uint64_t, const std::string&) {
    tensor.copy_from(Tensor::full(tensor.shape(), tensor.dtype(), value));
  };
}

CustomInit uniform_within(double bound) {
  return [bound](Tensor& value, std::uint64_t seed, const std::string& name) {
    fill_uniform(value, -bound, bound, seed, name);
  };
}

CustomInit xavier_uniform(std::int64_t fan_in, std::int64_t fan_out) {
  return uniform_within(std::sqrt(6 / static_cast<double>(fan_in + fan_out)));
}

CustomInit lecun_normal(std::int64_t fan_in) {
  constexpr double kStdOfCut = 0.87962566103423978;  // of a standard normal truncated at +-2
  const double std = 1 / (kStdOfCut * std::sqrt(static_cast<double>(fan_in)));
  return truncated_normal(std, 2 * std);
}

CustomInit truncated_normal(double std, double cut) {
  return [std, cut](Tensor& value, std::uint64_t seed, const std::string& name) {
    fill_truncated_normal(value, std, seed, name, cut);
  };
}

CustomInit normal_with(double std) {
  return [std](Tensor& value, std::uint64_t seed, const std::string& name) {
    fill_normal(value, std, seed, name);
  };
}

}  // namespace dtn
