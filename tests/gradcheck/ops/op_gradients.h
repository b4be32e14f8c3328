// Checks operations against central differences in float64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dtn/autograd/gradcheck.h"
#include "tensors.h"

namespace dtn::test {

using Inputs = std::vector<Variable>;
using Op = std::function<Variable(Context&, const Inputs&)>;

inline void check(const std::string& name, const Op& op, const std::vector<Tensor>& inputs,
                  const Context& base = {}) {
  Threads one(1);  // thousands of tiny passes
  const GradcheckResult r = gradcheck(op, inputs, base);
  EXPECT_LE(r.max_relative_error, 1e-6) << name << ": " << r.worst;
  EXPECT_GT(r.smallest_gradient, 0) << name;
}

// Checks a fused operation, which is one node of the tape, and its reference.
inline void check_both(const std::string& name, const Op& fused, const Op& reference,
                       const std::vector<Tensor>& inputs, const Context& base = {}) {
  check(
      name,
      [&](Context& ctx, const Inputs& v) {
        Variable y = fused(ctx, v);
        EXPECT_TRUE(!ctx.tape || ctx.tape->size() == 1) << name << " is not one operation";
        return y;
      },
      inputs, base);
  check(name + ", reference", reference, inputs, base);
}

}  // namespace dtn::test
