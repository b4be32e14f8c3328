// The kernels of a training step, each as a model calls it: its arguments at the model's shapes, in
// memory of their own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/random_values.h"
#include "dtn/config/train_config.h"
#include "dtn/core/device.h"

namespace dtn {

// The tensors of one call, which know how many bytes it moves at least: each that it reads once,
// and each that it writes once.
class KernelTensors {
 public:
  KernelTensors(Device device, RandomValues& values) : device_(device), values_(values) {}

  // Becomes a pointer of whatever type an argument has.
  struct Address {
    void* address;
    template <class T>
    operator T*() const {
      return static_cast<T*>(address);
    }
  };
  Address in(const Shape& shape, DType dtype) { return take(shape, dtype, kIn, -1, 1); }
  // For variances, scales and shares.
  Address positive(const Shape& shape, DType dtype) { return take(shape, dtype, kIn, 0.5, 1); }
  // Whole numbers in [0, limit).
  Address below(double limit, const Shape& shape, DType dtype) {
    return take(shape, dtype, kIn, 0, limit);
  }
  // These values.
  Address copy(const Tensor& values);
  Address out(const Shape& shape, DType dtype) { return take(shape, dtype, kOut, 0, 0); }
  Address in_out(const Shape& shape, DType dtype) { return take(shape, dtype, kInOut, -1, 1); }
  Address positive_in_out(const Shape& shape, DType dtype) {
    return take(shape, dtype, kInOut, 0.5, 1);
  }

  double bytes() const { return bytes_; }

 private:
  enum Use { kOut, kIn, kInOut };
  Address take(const Shape& shape, DType dtype, Use use, double low, double high);

  Device device_;
  RandomValues& values_;
  std::vector<Tensor> tensors_;
  double bytes_ = 0;
};

struct KernelCall {
  std::function<void()> run;  // or enqueue
  double multiply_adds = 0;   // as the kernel's arguments tell; 0 where they do not count them
};

struct KernelCase {
  std::string name;
  std::string shape;
  // The tensors must outlive the call.
  std::function<KernelCall(KernelTensors&)> prepare;
};

// Those of `config`, as it was loaded, on this device, at its micro-batch and precision. Throws
// ConfigError for a family of models whose layers are not known here.
std::vector<KernelCase> kernel_cases(const ExperimentConfig& config, Device device);

}  // namespace dtn
