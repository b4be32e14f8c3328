#include "models/weights/image_channels.h"

#include "dtn/core/check.h"

namespace dtn {

Tensor with_channels(const Tensor& weight, std::int64_t to) {
  DTN_CHECK(weight.rank() == 4 && weight.dtype() == DType::kFloat32, "weights of a convolution");
  const std::int64_t filters = weight.dim(0), from = weight.dim(1);
  const std::int64_t area = weight.dim(2) * weight.dim(3);
  Tensor result = Tensor::zeros({filters, to, weight.dim(2), weight.dim(3)}, DType::kFloat32);
  const float* in = weight.data<float>();
  float* out = result.data<float>();
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (std::int64_t n = 0; n < filters; ++n, in += from * area, out += to * area) {
    if (to == 1) {
      for (std::int64_t i = 0; i < from * area; ++i) out[i % area] += in[i];
    } else {
      for (std::int64_t i = 0; i < to * area; ++i) out[i] = in[i % (from * area)] * scale;
    }
  }
  return result;
}

}  // namespace dtn
