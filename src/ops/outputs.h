// An operation with several outputs as one node, which runs if a gradient has reached any of them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Wraps `values` as the results of one operation on `inputs`. `backward` gets the gradient of each
// result, undefined if none arrived. Each result has a node that stores its gradient for `backward`
// and activates the operation's node through its gradient sink.
template <std::size_t n>
std::array<Variable, n> record_outputs(
    Context& ctx, const char* op, const std::array<Tensor, n>& values,
    std::initializer_list<const Variable*> inputs,
    std::function<void(const std::array<Tensor, n>& gradients)> backward) {
  auto gradients = std::make_shared<std::array<Tensor, n>>();
  Variable node = ctx.record(op, values[0], inputs,
                             [=](const Tensor&) { backward(std::exchange(*gradients, {})); });
  std::array<Variable, n> outputs;
  for (std::size_t i = 0; i < n; ++i) {
    outputs[i] = ctx.record(op, values[i], {&node}, [=, wake = node.sink()](const Tensor& d) {
      (*gradients)[i] = d;
      wake->set(d);
    });
  }
  return outputs;
}

}  // namespace dtn::ops
