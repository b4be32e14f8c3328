#include "dtn/autograd/tape.h"

#include "core/cuda_device.h"

namespace dtn {

void Tape::add_uses(Inputs inputs, Uses& uses) {
  for (const Variable* input : inputs) {
    if (!input || !input->sink() || !input->sink()->bound()) continue;
    input->sink()->add_use();
    uses.push_back(input->sink());
  }
}

void Tape::count(Inputs inputs) {
  add_uses(inputs, uses_);
  for (const Variable* input : inputs) wants_gradient_ |= input && input->requires_grad();
}

void Tape::record(const char* op, GradSink output, Inputs inputs, Backward backward) {
  Uses uses;
  add_uses(inputs, uses);
  record(op, std::move(output), std::move(uses), std::move(backward));
}

void Tape::record(const char* op, GradSink output, Uses uses, Backward backward) {
  nodes_.push_back({op, std::move(output), std::move(uses), std::move(backward)});
}

void Tape::clear() {
  for (const Node& node : nodes_) {
    for (const GradSink& used : node.uses) used->drop_use();
  }
  for (const GradSink& used : uses_) used->drop_use();
  nodes_.clear();
  uses_.clear();
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
    if (node.output->has()) {
      Tensor dy = node.output->take();
      cuda::TraceRange range(node.op);
      try {
        node.backward(dy);
      } catch (const Error& e) {
        for (const GradSink& used : node.uses) used->drop_use();
        throw Error(cat("in the backward pass of ", node.op, ": ", e.what()));
      }
    }
    for (const GradSink& used : node.uses) used->end_use();
  }
}

}  // namespace dtn
