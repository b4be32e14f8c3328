// The sum of the ranks' gradients, taken while the backward pass still runs.
//
// The backward pass comes through the model from its end, and so through the flat memory of the
// decaying parameters, which holds nearly all of the gradient, too. What is whole is summed in
// buckets of consecutive memory; the parameters that do not decay and the loss go last.
#pragma once

#include <cstdint>

#include "dtn/dist/communicator.h"
#include "dtn/nn/parameters.h"

namespace dtn {

class GradientSum {
 public:
  // Gradients travel as `wire`, float32 or bfloat16.
  GradientSum(ParameterStore& store, Communicator& ranks, DType wire);

  // The gradients of the decaying parameters from this place on are whole, see Context.
  void whole_from(std::int64_t from);
  // All of them are. Sums what is left, and `loss` [1], and waits.
  void finish(Tensor loss);

 private:
  void start(std::int64_t begin, std::int64_t end);

  ParameterStore& store_;
  Communicator& ranks_;
  DType wire_;
  std::int64_t started_from_;  // decaying gradients from here on are under way
};

}  // namespace dtn
