// Checks analytic gradients against central differences in float64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dtn/autograd/context.h"

namespace dtn {

struct GradcheckOptions {
  double step = 1e-5;               // of the central difference, relative to max(1, |x|)
  std::int64_t max_elements = 200;  // checked per input, spread evenly
  std::uint64_t seed = 1;           // of the cotangent
};

struct GradcheckResult {
  double max_relative_error = 0;  // over inputs: max |analytic - numeric| / max |numeric|
  double smallest_gradient = 0;   // over inputs: max |numeric|; 0 means a test of zeros
  std::string worst;              // which input and element
};

// f maps the inputs (float64 leaves that require gradients) to one output; the scalar checked is
// its inner product with a fixed random cotangent.
GradcheckResult gradcheck(const std::function<Variable(Context&, const std::vector<Variable>&)>& f,
                          const std::vector<Tensor>& inputs, Context base = {},
                          GradcheckOptions options = {});

}  // namespace dtn
