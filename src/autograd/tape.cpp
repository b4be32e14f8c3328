#include "dtn/autograd/tape.h"

#include "core/cuda_device.h"

namespace dtn {

void Tape::record(const char* op, GradSink output, Backward backward) {
  nodes_.push_back({op, std::move(output), std::move(backward)});
}

void Tape::mark(std::function<void()> reached) {
  nodes_.push_back({"mark", nullptr, [reached = std::move(reached)](const Tensor&) { reached(); }});
}

void Tape::backward(const Variable& root, Tensor seed) {
  DTN_CHECK(root.requires_grad(), "backward from a value that depends on nothing trainable");
  if (!seed.defined()) {
    DTN_CHECK(root.value().numel() == 1, "backward from a value of shape ", to_string(root.shape()),
              " needs a seed");
    seed = Tensor::full(root.shape(), root.dtype(), 1.0).to(root.device());
  }
  DTN_CHECK(seed.shape() == root.shape() && seed.dtype() == root.dtype(), "the seed is ",
            name_of(seed.dtype()), " ", to_string(seed.shape()), ", the root ",
            name_of(root.dtype()), " ", to_string(root.shape()));
  root.sink()->accumulate(std::move(seed));
  while (!nodes_.empty()) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    if (node.output && !node.output->has()) continue;
    Tensor dy = node.output ? node.output->take() : Tensor();
    cuda::TraceRange range(node.op);
    try {
      node.backward(dy);
    } catch (const Error& e) {
      throw Error(cat("in the backward pass of ", node.op, ": ", e.what()));
    }
  }
}

}  // namespace dtn
