// A linear layer, y = x W^T + b. Parameters: weight [out, in], which decays, and bias [out].
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/nn/scope.h"

namespace dtn {

// Weight and bias for a product: the parameters of a linear layer, or values computed from them.
// Weight [out, in], bias [out] or undefined.
struct LinearValues {
  Variable weight, bias;
};

struct Linear {
  struct Options {
    bool bias = true;
    Initializer init = InitKind::kTruncatedNormal;  // of the weight
    Initializer bias_init = InitKind::kZeros;
  };
  Linear(const Scope& scope, std::int64_t in, std::int64_t out)
      : Linear(scope, in, out, Options{}) {}
  Linear(const Scope&, std::int64_t in, std::int64_t out, const Options&);

  // x [..., in] -> [..., out]
  Variable forward(Context&, const Variable& x) const;
  // The same made of primitive operations.
  Variable reference(Context&, const Variable& x) const;

  // The weight as an input of operations.
  const Variable& w() const { return weight->variable; }
  // The same for the bias; undefined if the layer has none.
  const Variable& b() const;
  LinearValues values() const { return {w(), b()}; }

  Parameter* weight;
  Parameter* bias = nullptr;
};

}  // namespace dtn
