// LayerNorm of the tokens before a grid (norm.prefix: ln), for DTN with a class token that comes
// first. The tokens are few, so they are copied out, normalized, and copied back.
#pragma once

#include "dtn/core/tensor.h"

namespace dtn::ops {

class DtnPrefix {
 public:
  // Takes the first `count` tokens of each image of x [B, T, C]; weight [C], accumulator type.
  DtnPrefix(const Tensor& x, std::int64_t count, double eps, Tensor weight);

  // Writes the prefix tokens of y [B, T, C]; bias [C].
  void forward(const Tensor& bias, Tensor& y);

  // Writes the prefix tokens of dx (null: not needed) and adds to dweight and dbias [C] (null: not
  // needed). `waiting` is added to dx unless it is null. dy, dx and `waiting` are [B, T, C].
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

}  // namespace dtn::ops
