// A tensor with an optional gradient.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "dtn/core/tensor.h"

namespace dtn {

// The bias that a layer added to every row of its output. Its gradient is the sum of the output's
// gradient over the rows. The producer of that gradient may accumulate the sum; it then calls
// set_summed().
class RowBias {
 public:
  explicit RowBias(std::function<Tensor()> gradient) : gradient_(std::move(gradient)) {}
  // [C], accumulator type: the sums are added to it.
  Tensor gradient() const { return gradient_(); }
  // True if the sum is complete, so that the layer need not compute it.
  bool is_summed() const { return is_summed_; }
  void set_summed() { is_summed_ = true; }

 private:
  std::function<Tensor()> gradient_;
  bool is_summed_ = false;
};

// Accumulates the gradient of one variable during a backward pass. Nodes of the tape hold slots,
// not variables, so a value lives only as long as an operation saves it on purpose.
class GradSlot {
 public:
  bool has() const { return grad_.defined(); }
  const Tensor& get() const { return grad_; }
  // Moves the gradient out and leaves the slot empty.
  Tensor take() { return std::exchange(grad_, Tensor()); }
  void set(Tensor grad) { grad_ = std::move(grad); }
  // Fixes the memory of the gradient. Every contribution is added to it, even if others share it.
  // Parameters of a store use the store's flat buffer.
  void bind(Tensor memory) {
    grad_ = std::move(memory);
    bound_ = true;
  }
  bool bound() const { return bound_; }
  // Stores g if there is no gradient yet, else adds g to it. g is not written to afterwards unless
  // this slot is its only owner.
  void accumulate(Tensor g);
  // The buffer to which a parameter's gradient is added; initially zeros of this shape.
  Tensor& buffer(const Shape& shape, DType dtype, Device device);

  // Bias of the layer that made the variable. Null: no bias, or its gradient is not needed.
  const std::shared_ptr<RowBias>& row_bias() const { return row_bias_; }
  void set_row_bias(std::shared_ptr<RowBias> bias) { row_bias_ = std::move(bias); }

  // Recorded operations that have yet to add to a bound gradient, see Tape.
  std::int64_t uses() const { return uses_; }
  void add_use() { ++uses_; }
  // Ends one use. The last one completes the gradient and calls `whole`.
  void end_use() {
    if (--uses_ == 0 && whole_) whole_();
  }
  // Drops a use of an operation that will add nothing, because its tape is discarded.
  void drop_use() { --uses_; }
  void on_grad_ready(std::function<void()> whole) { whole_ = std::move(whole); }

 private:
  Tensor grad_;
  bool bound_ = false;
  std::shared_ptr<RowBias> row_bias_;
  std::int64_t uses_ = 0;
  std::function<void()> whole_;
};

// Destination of a gradient; null if the gradient is not needed.
using GradSink = std::shared_ptr<GradSlot>;

class Variable {
 public:
  Variable() = default;
  // Creates a leaf. The gradient of a parameter has the accumulator type of the value (see
  // GradSlot::buffer). The gradient of an activation has the type of the value.
  explicit Variable(Tensor value, bool requires_grad = false)
      : value_(std::move(value)), slot_(requires_grad ? std::make_shared<GradSlot>() : nullptr) {}

  bool defined() const { return value_.defined(); }
  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  std::int64_t dim(int i) const { return value_.dim(i); }
  DType dtype() const { return value_.dtype(); }
  Device device() const { return value_.device(); }

  bool requires_grad() const { return slot_ != nullptr; }
  const GradSink& sink() const { return slot_; }
  // Undefined until a backward pass reaches this variable.
  Tensor grad() const { return slot_ ? slot_->get() : Tensor(); }

  // The value in type `dtype`: the value itself, its low-precision copy (parameters of a bfloat16
  // model have one), or a new conversion.
  Tensor value_as(DType dtype) const;
  // The same parameter with another shape. Both share one gradient, whose buffer must then be
  // accessed by element order only.
  Variable reshaped(const Shape& shape) const {
    Variable view = *this;
    view.value_ = value_.reshape(shape);
    if (low_precision_.defined()) view.low_precision_ = low_precision_.reshape(shape);
    return view;
  }
  void set_low_precision_copy(Tensor copy) { low_precision_ = std::move(copy); }

 private:
  Tensor value_;
  Tensor low_precision_;
  GradSink slot_;
};

}  // namespace dtn
