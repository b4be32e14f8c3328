#include "apps/bench/random_batch.h"

#include <algorithm>

#include "apps/bench/random_values.h"

namespace dtn {
namespace {

Fields random_inputs(const ModelConfig& model, std::int64_t n) {
  if (model.max_length == 0) {
    const Shape images = {n, model.channels, model.image_size.height, model.image_size.width};
    return {{"image", RandomValues().tensor(images, DType::kFloat32, kCpu)}};
  }
  Tensor tokens = Tensor::empty({n, model.max_length}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) {
    tokens.data<std::int64_t>()[i] = 1 + i % (model.vocabulary - 1);
  }
  return {{"tokens", tokens},
          {lengths_of("tokens"), Tensor::full({n}, DType::kInt64, model.max_length)}};
}

}  // namespace

Fields random_batch(const ModelConfig& model, std::int64_t n, Device device) {
  Fields batch = random_inputs(model, n);
  const std::int64_t classes = std::max(1, model.num_classes);
  Tensor& labels = batch["label"] = Tensor::empty({n}, DType::kInt64);
  for (std::int64_t i = 0; i < n; ++i) labels.data<std::int64_t>()[i] = i % classes;
  for (auto& [name, tensor] : batch) tensor = tensor.to(device);
  return batch;
}

}  // namespace dtn
