#include "apps/bench/random_values.h"

#include <algorithm>
#include <cmath>

#include "dtn/config/condition_field.h"
#include "dtn/core/parallel.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 18, kSource = 2 * kPiece;

template <class T>
Tensor make_source(std::uint32_t stream, double low, double high) {
  Tensor t = Tensor::empty({kSource}, DTypeOf<T>::value);
  T* out = t.data<T>();
  parallel_ranges(kSource, 1 << 16, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double uniform = philox_uniform({1, stream, 0}, static_cast<std::uint64_t>(i));
      const double value = low + (high - low) * uniform;
      if constexpr (std::is_integral_v<T>) {
        out[i] = static_cast<T>(std::floor(value));
      } else {
        out[i] = T(static_cast<float>(value));
      }
    }
  });
  return t;
}

Tensor make_source(DType dtype, std::uint32_t stream, double low, double high) {
  switch (dtype) {
    case DType::kFloat32: return make_source<float>(stream, low, high);
    case DType::kBFloat16: return make_source<bfloat16>(stream, low, high);
    case DType::kFloat64: return make_source<double>(stream, low, high);
    case DType::kInt64: return make_source<std::int64_t>(stream, low, high);
    case DType::kUInt8: return make_source<std::uint8_t>(stream, low, high);
  }
  throw Error(cat("no random values of type ", static_cast<int>(dtype)));
}

Fields random_inputs(const ModelConfig& model, std::int64_t n) {
  if (model.max_length == 0) {
    const Shape images = {n, model.channels, model.image_size.height, model.image_size.width};
    Fields fields{{"image", RandomValues().tensor(images, DType::kFloat32, kCpu)}};
    const auto condition = condition_field(model);
    if (!condition) return fields;
    Tensor& values = fields[condition->name];
    values = Tensor::zeros(shape_of(*condition, n), condition->dtype);
    if (condition->dtype == DType::kInt64) {
      for (std::int64_t i = 0; i < n; ++i) {
        values.data<std::int64_t>()[i] = i % model.condition.styles.value_or(1);
      }
    } else {
      RandomValues().fill(values);
    }
    return fields;
  }
  Tensor tokens = Tensor::empty({n, model.max_length}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) {
    tokens.data<std::int64_t>()[i] = 1 + i % (model.vocabulary - 1);
  }
  return {{"tokens", tokens},
          {lengths_of("tokens"), Tensor::full({n}, DType::kInt64, model.max_length)}};
}

}  // namespace

const Tensor& RandomValues::source(const Tensor& t, double low, double high) {
  Tensor& kept = sources_[{t.device().type, t.dtype(), low, high}];
  if (!kept.defined()) {
    const auto stream = static_cast<std::uint32_t>(sources_.size());
    kept = make_source(t.dtype(), stream, low, high).to(t.device());
  }
  return kept;
}

void RandomValues::fill(Tensor& t, double low, double high) {
  constexpr std::int64_t kPrime = 104729;
  const Tensor& values = source(t, low, high);
  Tensor flat = t.reshape({t.numel()});
  const std::int64_t first = fills_++ * kPrime % kPiece;
  for (std::int64_t at = 0; at < t.numel(); at += kPiece) {
    const std::int64_t count = std::min(kPiece, t.numel() - at);
    flat.slice(at, at + count).copy_from(values.slice(first, first + count));
  }
}

Tensor RandomValues::tensor(const Shape& shape, DType dtype, Device device) {
  Tensor t = Tensor::empty(shape, dtype, device);
  fill(t);
  return t;
}

Fields random_batch(const ModelConfig& model, std::int64_t n, Device device) {
  Fields batch = random_inputs(model, n);
  const std::int64_t classes = std::max(1, model.num_classes);
  Tensor& labels = batch["label"] = Tensor::empty({n}, DType::kInt64);
  for (std::int64_t i = 0; i < n; ++i) labels.data<std::int64_t>()[i] = i % classes;
  for (auto& [name, tensor] : batch) tensor = tensor.to(device);
  return batch;
}

}  // namespace dtn
