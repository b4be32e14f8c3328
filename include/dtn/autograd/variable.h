// A tensor that may want a gradient.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "dtn/core/tensor.h"

namespace dtn {

// The bias that a layer has added to every row of its output. Its gradient is the sum over the rows of
// the output's, which whoever makes that may add up on the way, and says so.
class RowBias {
 public:
  explicit RowBias(std::function<Tensor()> gradient) : gradient_(std::move(gradient)) {}
  // [C], accumulator type: what the sums are added to.
  Tensor gradient() const { return gradient_(); }
  // The layer has nothing left to do for its bias.
  bool is_summed() const { return is_summed_; }
  void set_summed() { is_summed_ = true; }

 private:
  std::function<Tensor()> gradient_;
  bool is_summed_ = false;
};

// Where the gradient of one variable is gathered during a backward pass. Nodes of the tape hold
// slots, not variables, so that a value lives only as long as somebody saved it on purpose.
class GradSlot {
 public:
  bool has() const { return grad_.defined(); }
  const Tensor& get() const { return grad_; }
  // Moves the gradient out and leaves the slot empty.
  Tensor take() { return std::exchange(grad_, Tensor()); }
  void set(Tensor grad) { grad_ = std::move(grad); }
  // Fixes where the gradient is gathered: every contribution is added to this memory, whoever
  // shares it. Parameters of a store gather in its flat buffer.
  void bind(Tensor memory) {
    grad_ = std::move(memory);
    bound_ = true;
  }
  bool bound() const { return bound_; }
  // Becomes g when there is none yet, and the sum otherwise. g is not written to afterwards
  // unless this slot is its only owner.
  void accumulate(Tensor g);
  // The buffer a parameter's gradient is added to: zeros of this shape at first.
  Tensor& buffer(const Shape& shape, DType dtype, Device device);

  // Of the layer that made the variable; null: none, or nobody wants its gradient.
  const std::shared_ptr<RowBias>& row_bias() const { return row_bias_; }
  void set_row_bias(std::shared_ptr<RowBias> bias) { row_bias_ = std::move(bias); }

  // Operations that were recorded and have yet to add their part to a bound gradient, see Tape.
  std::int64_t uses() const { return uses_; }
  void add_use() { ++uses_; }
  // The last use to end makes the gradient whole, and `whole` is called.
  void end_use() {
    if (--uses_ == 0 && whole_) whole_();
  }
  // The same for an operation that will add nothing any more, as its tape is given up.
  void drop_use() { --uses_; }
  void on_whole(std::function<void()> whole) { whole_ = std::move(whole); }

 private:
  Tensor grad_;
  bool bound_ = false;
  std::shared_ptr<RowBias> row_bias_;
  std::int64_t uses_ = 0;
  std::function<void()> whole_;
};

// Where to send a gradient; null when nobody wants it.
using GradSink = std::shared_ptr<GradSlot>;

class Variable {
 public:
  Variable() = default;
  // A leaf. Its gradient has the accumulator type of the value for parameters (see
  // GradSlot::buffer) and the type of the value for activations.
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
  // Undefined until a backward pass has reached this variable.
  Tensor grad() const { return slot_ ? slot_->get() : Tensor(); }

  // The value for use in a computation of type `dtype`: the value itself, its low-precision copy
  // (parameters of a bfloat16 model have one), or a fresh conversion.
  Tensor value_as(DType dtype) const;
  // The same parameter seen in another shape; both share one gradient, whose buffer must then be
  // used by element order alone.
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
