// Sums the gradients of the ranks while the backward pass still runs.
//
// The backward pass goes through the model from its end. So it also goes from the end through the
// flat memory of the decaying parameters, which holds nearly all of the gradient. Complete
// gradients are summed in buckets of consecutive memory. Gradients of frozen parameters are not
// sent. The parameters without decay and the loss are summed last.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/dist/communicator.h"
#include "dtn/nn/parameters.h"

namespace dtn {

class GradientSum {
 public:
  // Gradients are sent as `wire`, float32 or bfloat16. The store must outlive this object.
  GradientSum(ParameterStore& store, Communicator& ranks, DType wire);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  // Call before the backward pass of the last micro-batch: a gradient that is complete from now on
  // is final for the step. Gradients of unused parameters are complete at once.
  void begin();
  // Call when all gradients are complete. Sums the remaining gradients and `sums`, and waits.
  void finish(Tensor sums);

 private:
  struct Place {
    std::int64_t begin;
    Parameter* parameter;
    bool whole = false;
  };
  void on_grad_ready(std::size_t place);
  void start_bucket();
  void start(std::int64_t begin, std::int64_t end);

  ParameterStore& store_;
  Communicator& ranks_;
  DType wire_;
  std::vector<FlatRange> live_;  // without frozen parameters, which have no gradient to sum
  std::vector<Place> places_;    // decaying parameters, in the order of flat memory
  bool begun_ = false;
  std::size_t whole_from_;     // all places from here on are complete
  std::int64_t started_from_;  // sums of decaying gradients from here on have started
};

}  // namespace dtn
