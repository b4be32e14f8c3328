// What a communicator has under way: moves of bytes, and sums between them.
//
// A transport wants moves of a kind to start in the same order on every rank. Exchanges start in
// the order of the operations at once. A gather starts once its operation is ready for it and all
// operations before it have started theirs.
#pragma once

#include <memory>
#include <string>

#include "dist/transport.h"
#include "dtn/core/tensor.h"

namespace dtn {

class Operation {
 public:
  virtual ~Operation() = default;
  // Goes on as far as it can without waiting; called again and again until done().
  virtual void advance(Transport& transport, bool may_gather) = 0;
  bool gathering() const { return gathering_; }
  bool done() const { return done_; }

 protected:
  bool gathering_ = false;  // has started its gather
  bool done_ = false;
};

// x becomes its sum over the ranks. Each adds up a slice of its own, in the order of the ranks, and
// hands it to the others. `wire` is the type of x, or bfloat16 for float32.
std::unique_ptr<Operation> sum_operation(Tensor x, DType wire);
// x becomes what it is at root.
std::unique_ptr<Operation> broadcast_operation(Tensor x, int root);
// all [size, ...] becomes x of every rank.
std::unique_ptr<Operation> gather_operation(const Tensor& x, Tensor all);

}  // namespace dtn
