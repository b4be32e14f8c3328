// LayerNorm of the tokens ahead of a grid (norm.prefix: ln): what DTN does to a class token that
// comes first. They are few, so they are taken out, normalized, and put back.
#pragma once

#include "dtn/core/tensor.h"

namespace dtn {

class DtnPrefix {
 public:
  // The first `count` tokens of each image of x [B, T, C]; weight [C] in the accumulator type.
  DtnPrefix(const Tensor& x, std::int64_t count, double eps, Tensor weight);

  // Writes those tokens of y [B, T, C]; bias [C].
  void forward(const Tensor& bias, Tensor& y);

  // Writes those tokens of dx (null: not wanted) and adds to dweight and dbias [C] (null: not
  // wanted). dy, dx and `waiting`, which is added to dx unless it is null, are [B, T, C].
  void backward(const void* dy, const void* waiting, void* dx, void* dweight, void* dbias) const;

 private:
  Tensor empty() const { return Tensor::empty_like(x_); }
  Tensor taken_from(const void* tokens) const;
  void put_into(void* tokens, const Tensor& prefix) const;

  std::int64_t batch_, tokens_, channels_;
  double eps_;
  Tensor x_;       // [B, count, C]
  Tensor weight_;  // [C]
  Tensor mean_, rstd_;
};

}  // namespace dtn
