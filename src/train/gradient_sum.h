// The sum of the ranks' gradients, taken while the backward pass still runs.
//
// The backward pass comes through the model from its end, and so through the flat memory of the
// decaying parameters, which holds nearly all of the gradient, too. What is whole is summed in
// buckets of consecutive memory; frozen parameters do not travel; the parameters that do not decay and the loss go last.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/dist/communicator.h"
#include "dtn/nn/parameters.h"

namespace dtn {

class GradientSum {
 public:
  // Gradients travel as `wire`, float32 or bfloat16. The store must outlive it.
  GradientSum(ParameterStore& store, Communicator& ranks, DType wire);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  // The backward pass of the last micro-batch begins: a gradient that becomes whole from now on is
  // so for the step. Those of parameters that nothing has used are whole already.
  void begin();
  // All of them are. Sums what is left, and `sums` beside, and waits.
  void finish(Tensor sums);

 private:
  struct Place {
    std::int64_t begin;
    Parameter* parameter;
    bool whole = false;
  };
  void become_whole(std::size_t place);
  void start_bucket();
  void start(std::int64_t begin, std::int64_t end);

  ParameterStore& store_;
  Communicator& ranks_;
  DType wire_;
  std::vector<FlatRange> live_;  // frozen parameters have no gradient to be summed
  std::vector<Place> places_;    // decaying parameters in the order of flat memory
  bool begun_ = false;
  std::size_t whole_from_;     // all places from here on are whole
  std::int64_t started_from_;  // decaying gradients from here on are under way
};

}  // namespace dtn
