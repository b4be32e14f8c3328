// The factor of the focal loss for one class of a softmax with the probability p, as a function of
// n = -log p:
//    q     = 1 - p
//    loss  = q^gamma
//    slope = q^gamma (1 + gamma p n / q)
// The loss of the class is `loss` n, and its derivative by log p is -`slope`.
//
// q is computed from n, so that it has all its digits when p is near 1. There n / q goes to 1.
//
// Plain host/device code: kernels for every device include this header.
#pragma once

#include <cmath>

#include "dtn/core/host_device.h"

namespace dtn {

// n is at least 0, also infinite, or NaN. A is float or double, gamma at least 0.
template <class A>
struct FocalFactor {
  A loss, slope;

  DTN_HOST_DEVICE static inline FocalFactor at(A n, A gamma) {
    const A q = -std::expm1(-n), p = std::exp(-n);
    const A power = gamma == A(2) ? q * q : std::pow(q, gamma);
    const A ratio = q > A(0) ? n / q : A(1);
    // A ratio that is infinite does not count, because p is then 0.
    return {power, p > A(0) ? power * (A(1) + gamma * p * ratio) : power};
  }
};

}  // namespace dtn
