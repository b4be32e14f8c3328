// Kernels of a training step, called as the model calls them: with arguments at the model's shapes,
// in separate memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/bench/random_values.h"
#include "dtn/config/train_config.h"
#include "dtn/core/device.h"

namespace dtn {

// Tensors of one kernel call. Counts the bytes that the call must at least move: each input read
// once, and each output written once.
class KernelTensors {
 public:
  KernelTensors(Device device, RandomValues& values) : device_(device), values_(values) {}

  // Pointer to a tensor's memory; converts to any pointer type.
  struct Address {
    void* address;
    template <class T>
    operator T*() const {
      return static_cast<T*>(address);
    }
  };
  Address in(const Shape& shape, DType dtype) { return take(shape, dtype, kIn, -1, 1); }
  // Positive inputs, for variances, scales and probabilities.
  Address positive(const Shape& shape, DType dtype) { return take(shape, dtype, kIn, 0.5, 1); }
  // Integers in [0, limit).
  Address below(double limit, const Shape& shape, DType dtype) {
    return take(shape, dtype, kIn, 0, limit);
  }
  // Input with the given values.
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
  std::function<void()> run;  // runs the kernel or enqueues it
  double multiply_adds = 0;   // counted from the arguments; 0 if they are not counted
};

struct KernelCase {
  std::string name;
  std::string shape;
  // The tensors must outlive the call.
  std::function<KernelCall(KernelTensors&)> prepare;
};

// Returns the kernels of a step of `config`, as it was loaded, on this device, at its micro-batch
// and precision. Throws ConfigError for a model family whose layers are not known here.
std::vector<KernelCase> kernel_cases(const ExperimentConfig& config, Device device);

}  // namespace dtn
