// The record of a forward pass. Backward is one reverse walk over a vector: no recursion and no
// sorting, because operations were recorded in the order in which they ran.
#pragma once

#include <functional>
#include <vector>

#include "dtn/autograd/variable.h"

namespace dtn {

class Tape {
 public:
  // Given the gradient of the node's output, sends gradients on to the sinks it captured.
  using Backward = std::function<void(const Tensor& dy)>;

  Tape() = default;
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  void record(const char* op, GradSink output, Backward backward);

  // Calls `reached` in the backward pass as soon as all nodes recorded after this moment have run:
  // what was used by those alone has its whole gradient then.
  void mark(std::function<void()> reached);

  // Runs all nodes in reverse, starting with d root = seed (default: ones, root must then hold one
  // element), and empties the tape: each node, with all it saved, is freed once it has run. Nodes
  // that no gradient reached are skipped.
  void backward(const Variable& root, Tensor seed = {});

  std::size_t size() const { return nodes_.size(); }
  void clear() { nodes_.clear(); }

 private:
  struct Node {
    const char* op;
    GradSink output;  // null: a mark
    Backward backward;
  };
  std::vector<Node> nodes_;
};

}  // namespace dtn
