// Checks analytic gradients against central differences in float64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dtn/autograd/context.h"

namespace dtn {

// Settings of gradcheck().
struct GradcheckOptions {
  double step = 1e-5;               // of the central difference, relative to max(1, |x|)
  std::int64_t max_elements = 200;  // checked per input, about; evenly spaced
  std::uint64_t seed = 1;           // of the cotangent
};

// Errors found by gradcheck().
struct GradcheckResult {
  double max_relative_error = 0;  // max over inputs of max |analytic - numeric| / max |numeric|
  double smallest_gradient = 0;   // min over inputs of max |numeric|; 0: the test checks only zeros
  std::string worst;              // input and element with the largest error
};

// Checks the gradients of f, which maps the inputs (float64 leaves that require gradients) to one
// output. The checked scalar is the inner product of the output with a fixed random cotangent.
GradcheckResult gradcheck(const std::function<Variable(Context&, const std::vector<Variable>&)>& f,
                          const std::vector<Tensor>& inputs, Context base = {},
                          GradcheckOptions options = {});

}  // namespace dtn
