// Shared by the files of kernel cases; see kernel_cases.h. kernel_cases.cpp: images, loss, update.
// kernel_cases_linear.cpp: matrix products. kernel_cases_tokens.cpp: norms and attention.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/kernel_cases.h"
#include "config/document.h"
#include "core/meta_device.h"
#include "core/queue.h"
#include "dtn/core/check.h"

namespace dtn {

// Shapes and types of a step, from which the kernel arguments follow. Each case has a copy.
struct StepShape {
  ExperimentConfig config;
  Device device;
  DType t = DType::kFloat32;    // of activations
  DType acc = DType::kFloat32;  // of statistics and parameter gradients
  std::int64_t B = 0;           // images of a micro-batch
  std::int64_t T = 0;           // tokens in the first block
  std::int64_t T_end = 0;       // tokens in the last block
  std::int64_t C = 0, H = 0, D = 0, hidden = 0;
  bool drops = false;           // drop path in the residual branches
  bool fused_residual = false;  // the last product of a branch adds the residual
};

class CaseList {
 public:
  explicit CaseList(Device device) : device_(device) {}

  // Adds a case. `arguments` takes a KernelTensors& and returns the kernel's arguments.
  template <class F>
  void add(std::string name, std::initializer_list<std::int64_t> sizes, const F& arguments) {
    cases_.push_back({std::move(name), config::join(sizes, " x "),
                      [device = device_, arguments](KernelTensors& m) {
                        return call_of(device, arguments(m));
                      }});
  }
  std::vector<KernelCase> take() { return std::move(cases_); }

 private:
  template <class Arguments>
  static KernelCall call_of(Device device, const Arguments& args) {
    meta_queue().take_work();
    meta_queue().count(args);
    const double multiply_adds = meta_queue().take_work().multiply_adds;
    if constexpr (requires { run(cpu_queue(), args); }) {
      return {[=] { run_on(device, args); }, multiply_adds};
    } else {
      return {[=] { run(cuda_queue(), args); }, multiply_adds};
    }
  }

  Device device_;
  std::vector<KernelCase> cases_;
};

void add_linear_cases(CaseList&, const StepShape&);
void add_token_cases(CaseList&, const StepShape&);

}  // namespace dtn
