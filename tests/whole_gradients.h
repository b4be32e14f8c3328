// Records the reports of a store's parameters that their gradients are complete.
#pragma once

#include <map>
#include <string>

#include "dtn/nn/parameters.h"
#include "tensors.h"

namespace dtn::test {

// Listens until its destruction. The store must be on the CPU and outlive it.
class WholeGradients {
 public:
  explicit WholeGradients(ParameterStore& store) : store_(store) {
    for (Parameter& p : store_.parameters()) {
      p.variable.sink()->on_grad_ready(
          [this, &p] { told_[p.name].push_back(p.variable.grad().clone()); });
    }
  }
  ~WholeGradients() {
    for (Parameter& p : store_.parameters()) p.variable.sink()->on_grad_ready({});
  }
  WholeGradients(const WholeGradients&) = delete;
  WholeGradients& operator=(const WholeGradients&) = delete;

  // Call after a backward pass. Expects that every parameter with a gradient reported exactly once,
  // with its final gradient, and that no gradient is in use. Clears the record.
  void expect_told_once() {
    for (const Parameter& p : store_.parameters()) {
      const std::vector<Tensor> told = std::move(told_[p.name]);
      EXPECT_EQ(p.variable.sink()->uses(), 0) << p.name;
      EXPECT_LE(told.size(), 1u) << p.name;
      for (const Tensor& gradient : told) {
        EXPECT_TRUE(same_bits(gradient, p.variable.grad())) << p.name << " was not whole";
      }
      if (told.empty()) {
        EXPECT_EQ(max_abs(doubles(p.variable.grad())), 0) << p.name << " was never whole";
      }
    }
    told_.clear();
  }

 private:
  ParameterStore& store_;
  std::map<std::string, std::vector<Tensor>> told_;
};

}  // namespace dtn::test
