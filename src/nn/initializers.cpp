#include "dtn/nn/initializers.h"

#include <cmath>

namespace dtn {

CustomInit xavier_uniform(std::int64_t fan_in, std::int64_t fan_out) {
  const double bound = std::sqrt(6 / static_cast<double>(fan_in + fan_out));
  return [bound](Tensor& value, std::uint64_t seed, const std::string& name) {
    fill_uniform(value, -bound, bound, seed, name);
  };
}

CustomInit lecun_normal(std::int64_t fan_in) {
  constexpr double kStdOfCut = 0.87962566103423978;  // of a standard normal truncated at +-2
  const double std = 1 / (kStdOfCut * std::sqrt(static_cast<double>(fan_in)));
  return [std](Tensor& value, std::uint64_t seed, const std::string& name) {
    fill_truncated_normal(value, std, seed, name, 2 * std);
  };
}

CustomInit normal_with(double std) {
  return [std](Tensor& value, std::uint64_t seed, const std::string& name) {
    fill_normal(value, std, seed, name);
  };
}

}  // namespace dtn
