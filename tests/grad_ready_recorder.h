// Records the reports of a store's parameters that their gradients are complete.
#pragma once

#include <map>
#include <string>

#include "dtn/nn/parameters.h"
#include "tensors.h"

namespace dtn::test {

// Listens until its destruction. The store must be on the CPU and outlive it.
class GradReadyRecorder {
 public:
  explicit GradReadyRecorder(ParameterStore& store) : store_(store) {
    for (Parameter& p : store_.parameters()) {
      p.variable.sink()->on_grad_ready(
          [this, &p] { reports_[p.name].push_back(p.variable.grad().clone()); });
    }
  }
  ~GradReadyRecorder() {
    for (Parameter& p : store_.parameters()) p.variable.sink()->on_grad_ready({});
  }
  GradReadyRecorder(const GradReadyRecorder&) = delete;
  GradReadyRecorder& operator=(const GradReadyRecorder&) = delete;

  // Call after a backward pass. Expects that every parameter with a gradient reported exactly once,
  // with its final gradient, and that no gradient is in use. Clears the record.
  void expect_reported_once() {
    for (const Parameter& p : store_.parameters()) {
      const std::vector<Tensor> reports = std::move(reports_[p.name]);
      EXPECT_EQ(p.variable.sink()->uses(), 0) << p.name;
      EXPECT_LE(reports.size(), 1u) << p.name;
      for (const Tensor& gradient : reports) {
        EXPECT_TRUE(same_bits(gradient, p.variable.grad())) << p.name << " was not complete";
      }
      if (reports.empty()) {
        EXPECT_EQ(max_abs(doubles(p.variable.grad())), 0) << p.name << " was never complete";
      }
    }
    reports_.clear();
  }

 private:
  ParameterStore& store_;
  std::map<std::string, std::vector<Tensor>> reports_;
};

}  // namespace dtn::test
