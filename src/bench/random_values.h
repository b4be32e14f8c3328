// The inputs of measurements: never zeros, which a device may handle with less power and so faster.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "dtn/core/tensor.h"

namespace dtn {

// Half a million are made on the host, once for each type and range; tensors are filled with them
// over and over, each beginning elsewhere.
class RandomValues {
 public:
  // Uniform in [low, high): of a float type as they are, of any other rounded down.
  void fill(Tensor& t, double low = -1, double high = 1);
  Tensor tensor(const Shape& shape, DType dtype, Device device);

 private:
  const Tensor& source(const Tensor& t, double low, double high);

  std::map<std::tuple<DeviceType, DType, double, double>, Tensor> sources_;
  std::int64_t fills_ = 0;
};

}  // namespace dtn
