#include "dtn/core/tensor.h"

#include <algorithm>
#include <cstring>

#include "core/allocator.h"
#include "core/cuda_device.h"
#include "core/meta_device.h"

namespace dtn {
namespace {

std::shared_ptr<std::byte> allocate_on(Device device, std::size_t bytes) {
  switch (device.type) {
    case DeviceType::kCpu: return allocate_cached(bytes);
    case DeviceType::kCuda: return cuda::allocate(bytes);
    case DeviceType::kMeta: return allocate_meta(bytes);
  }
  throw Error("no such device");
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  std::size_t bytes;
  DTN_CHECK(
      !__builtin_mul_overflow(static_cast<std::size_t>(shape.numel()), size_of(dtype), &bytes),
      "tensor of shape ", to_string(shape), " is too large");
  return wrap(allocate_on(device, bytes), 0, shape, dtype, device);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  t.zero();
  return t;
}

Tensor Tensor::full(const Shape& shape, DType dtype, double value, Device device) {
  Tensor t = empty(shape, dtype);
  std::int64_t n = t.numel();
  switch (dtype) {
    case DType::kFloat32: std::fill_n(t.data<float>(), n, static_cast<float>(value)); break;
    case DType::kBFloat16:
      std::fill_n(t.data<bfloat16>(), n, bfloat16(static_cast<float>(value)));
      break;
    case DType::kFloat64: std::fill_n(t.data<double>(), n, value); break;
    case DType::kInt64:
      std::fill_n(t.data<std::int64_t>(), n, static_cast<std::int64_t>(value));
      break;
    case DType::kUInt8:
      std::fill_n(t.data<std::uint8_t>(), n, static_cast<std::uint8_t>(value));
      break;
  }
  return t.to(device);
}

Tensor Tensor::wrap(std::shared_ptr<std::byte> owner, std::size_t byte_offset, const Shape& shape,
                    DType dtype, Device device) {
  Tensor t;
  t.storage_ = std::move(owner);
  t.byte_offset_ = byte_offset;
  t.shape_ = shape;
  t.dtype_ = dtype;
  t.device_ = device;
  return t;
}

Tensor Tensor::reshape(std::initializer_list<std::int64_t> dims) const {
  std::array<std::int64_t, Shape::kMaxRank> resolved{};
  DTN_CHECK(dims.size() <= resolved.size(), "cannot reshape to ", dims.size(),
            " dimensions; a tensor has at most ", resolved.size());
  std::copy(dims.begin(), dims.end(), resolved.begin());
  std::int64_t known = 1;
  int free_dim = -1;
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    if (resolved[i] == -1) {
      DTN_CHECK(free_dim < 0, "reshape: only one extent may be -1");
      free_dim = i;
    } else {
      known *= resolved[i];
    }
  }
  if (free_dim >= 0) resolved[free_dim] = known ? numel() / known : 0;
  return reshape(Shape(std::span<const std::int64_t>(resolved.data(), dims.size())));
}

Tensor Tensor::reshape(const Shape& shape) const {
  DTN_CHECK(shape.numel() == numel(), "cannot reshape ", to_string(shape_), " to ",
            to_string(shape));
  Tensor view = *this;
  view.shape_ = shape;
  return view;
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  DTN_CHECK(rank() >= 1 && 0 <= begin && begin <= end && end <= dim(0), "rows [", begin, ", ", end,
            ") are not in ", to_string(shape_));
  Tensor view = *this;
  std::size_t row = dim(0) ? nbytes() / static_cast<std::size_t>(dim(0)) : 0;
  view.byte_offset_ += static_cast<std::size_t>(begin) * row;
  view.shape_[0] = end - begin;
  return view;
}

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor copy = empty_like(*this);
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::to(Device device) const {
  if (!defined() || device_ == device) return *this;
  Tensor copy = empty(shape_, dtype_, device);
  copy.copy_from(*this);
  return copy;
}

void Tensor::zero() {
  switch (device_.type) {
    case DeviceType::kCpu: std::memset(raw(), 0, nbytes()); break;
    case DeviceType::kCuda: cuda::fill_with_zero(raw(), nbytes()); break;
    case DeviceType::kMeta: break;
  }
}

void Tensor::copy_from(const Tensor& source) {
  DTN_CHECK(source.dtype() == dtype_ && source.numel() == numel(), "cannot copy ",
            name_of(source.dtype()), " ", to_string(source.shape()), " into ", name_of(dtype_), " ",
            to_string(shape_));
  if (nbytes() == 0 || device_ == kMeta) return;
  DTN_CHECK(source.device_ != kMeta, "tensor ", to_string(source.shape()),
            " is on the meta device, so it has no values to copy");
  bool from_host = source.device_ == kCpu, to_host = device_ == kCpu;
  if (from_host && to_host) {
    std::memmove(raw(), source.raw(), nbytes());
  } else if (from_host) {
    cuda::copy_to_device(raw(), source.raw(), nbytes());
  } else if (to_host) {
    cuda::copy_to_host(raw(), source.raw(), nbytes());
    cuda::synchronize();
  } else {
    cuda::copy_on_device(raw(), source.raw(), nbytes());
  }
}

}  // namespace dtn
