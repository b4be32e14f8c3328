// A contiguous n-dimensional array: shared storage, offset, shape, element type, device.
// Copies are handles to the same storage. Views are made by reshape and by slicing dimension 0;
// there are no general strides.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "dtn/core/check.h"
#include "dtn/core/device.h"
#include "dtn/core/dtype.h"
#include "dtn/core/shape.h"

namespace dtn {

class Tensor {
 public:
  Tensor() = default;  // undefined: holds nothing

  // Uninitialised, from the caching allocator of the device.
  static Tensor empty(const Shape& shape, DType dtype, Device device = kCpu);
  // Filled with zeros.
  static Tensor zeros(const Shape& shape, DType dtype, Device device = kCpu);
  // Filled on the host, then copied to the device.
  static Tensor full(const Shape& shape, DType dtype, double value, Device device = kCpu);
  // Uninitialised, with the shape, type and device of `other`.
  static Tensor empty_like(const Tensor& other) {
    return empty(other.shape(), other.dtype(), other.device());
  }
  // Copies `values`; their number must equal shape.numel().
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape);
  // The same from a vector.
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  // Wraps memory that `owner` keeps alive, such as a mapped file. The address must be aligned for
  // dtype.
  static Tensor wrap(std::shared_ptr<std::byte> owner, std::size_t byte_offset, const Shape& shape,
                     DType dtype, Device device = kCpu);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t dim(int i) const { return shape_[i]; }
  std::int64_t numel() const { return shape_.numel(); }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

  void* raw() { return storage_.get() + byte_offset_; }
  const void* raw() const { return storage_.get() + byte_offset_; }
  // Typed access from the host; T must be the element type.
  template <class T>
  T* data() {
    check_dtype(DTypeOf<T>::value);
    return static_cast<T*>(raw());
  }
  template <class T>
  const T* data() const {
    check_dtype(DTypeOf<T>::value);
    return static_cast<const T*>(raw());
  }
  // All elements, for reading on the host. T must be the element type.
  template <class T>
  std::span<const T> values() const {
    return {data<T>(), static_cast<std::size_t>(numel())};
  }

  // Views of the same storage. reshape keeps numel; one extent may be -1.
  Tensor reshape(std::initializer_list<std::int64_t> dims) const;
  Tensor reshape(const Shape& shape) const;
  // Rows [begin, end) of dimension 0.
  Tensor slice(std::int64_t begin, std::int64_t end) const;

  // Copies the elements to new memory on the same device.
  Tensor clone() const;
  // Returns this tensor if it is already on the device, else a copy there. A copy to the host waits
  // for pending work of the device.
  Tensor to(Device device) const;
  // Sets all elements to 0.
  void zero();
  // Copies the bytes of `source`, from any device. Element type and count must be the same. A copy
  // to the host waits for pending work of the device.
  void copy_from(const Tensor& source);
  // True if no other tensor shares the storage, so the storage may be overwritten.
  bool unique() const { return storage_.use_count() == 1; }

 private:
  void check_dtype(DType wanted) const {
    DTN_CHECK(defined(), "access to an undefined tensor");
    DTN_CHECK(dtype_ == wanted, "tensor ", to_string(shape_), " is ", name_of(dtype_), ", not ",
              name_of(wanted));
    DTN_CHECK(device_ == kCpu, "tensor ", to_string(shape_), " is on ", to_string(device_),
              "; the host cannot read it there");
  }

  std::shared_ptr<std::byte> storage_;
  std::size_t byte_offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::kFloat32;
  Device device_ = kCpu;
};

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  DTN_CHECK(static_cast<std::int64_t>(values.size()) == shape.numel(), "got ", values.size(),
            " values for shape ", to_string(shape));
  Tensor t = empty(shape, DTypeOf<T>::value);
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}

}  // namespace dtn
