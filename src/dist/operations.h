// Running operations of a communicator: moves of bytes, and sums between them.
//
// A transport needs all ranks to start the moves of one kind in the same order. Exchanges start
// immediately, in the order of the operations. A gather starts once its operation is ready for it
// and all earlier operations have started theirs.
#pragma once

#include <memory>

#include "dist/transport.h"
#include "dtn/core/tensor.h"

namespace dtn {

class Operation {
 public:
  virtual ~Operation() = default;
  // Continues as far as possible without waiting; called repeatedly until done().
  virtual void advance(Transport& transport, bool may_gather) = 0;
  bool gathering() const { return gathering_; }
  bool done() const { return done_; }

 protected:
  bool gathering_ = false;  // has started its gather
  bool done_ = false;
};

// Replaces x by its sum over the ranks. Each rank adds up one slice, in the order of the ranks, and
// sends it to the others. `wire` is the type of x, or bfloat16 for float32.
std::unique_ptr<Operation> sum_operation(Tensor x, DType wire);
// Replaces x by the x of rank `root`.
std::unique_ptr<Operation> broadcast_operation(Tensor x, int root);
// Fills all [size, ...] with the x of every rank.
std::unique_ptr<Operation> gather_operation(const Tensor& x, Tensor all);

}  // namespace dtn
