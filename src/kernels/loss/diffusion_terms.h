// Variational bound of a diffusion model per value, in nats, and its derivative (Nichol and
// Dhariwal, "Improved denoising diffusion probabilistic models", ICML 2021). With the predicted
// noise e', the true noise e, d = e' - e and the output v:
//    f = (v + 1) / 2;  log variance = f log beta_t + (1 - f) log bt_t = log bt_t + f r_t
//    t > 0: KL of the true posterior N(mean(x_0), bt_t) and N(mean(x_0'), variance)
//         = (f r_t - 1 + e^(-f r_t) + g_t^2 d^2 / bt_t e^(-f r_t)) / 2
//    t = 0: -log of the mass of [x_0 - 1/255, x_0 + 1/255] under N(x_0 - g_0 d, variance)
// Both images follow from x_t and the noise, so the means differ by g_t d:
//    g_t = beta_t / (sqrt(1 - abar_t) sqrt(1 - beta_t))
// This form does not subtract images, whose difference is small against them.
//
// Plain host/device code: kernels for every device include this header.
#pragma once

#include <cmath>

#include "dtn/core/host_device.h"

namespace dtn {

// Constants of one time step, in float64.
struct DiffusionStep {
  double signal, noise;  // x_t = signal x_0 + noise e: sqrt(abar_t), sqrt(1 - abar_t)
  double log_range;      // r_t = log beta_t - log bt_t
  double log_variance;   // log bt_t, of the posterior; of the second step at the first
  double gap;            // g_t
  double gap_weight;     // g_t^2 / bt_t; 0 at the first step
};

// A term of the bound and its derivative by v.
template <class A>
struct BoundTerm {
  A value, slope;
};

// t > 0. -1 + e^-s is one function, so that small s keep their digits.
template <class A>
DTN_HOST_DEVICE static inline BoundTerm<A> divergence_term(const DiffusionStep& step, A difference,
                                                           A v) {
  const A range = static_cast<A>(step.log_range), weight = static_cast<A>(step.gap_weight);
  const A s = (v + 1) / 2 * range;
  const A shrink = std::expm1(-s);  // e^-s - 1
  const A gap = weight * difference * difference * (shrink + 1);
  return {(s + shrink + gap) / 2, -range / 4 * (shrink + gap)};
}

// Distribution function of the standard normal and its derivative, in the approximation
//    (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))) / 2
struct NormalMass {
  double below, density;
};
DTN_HOST_DEVICE static inline NormalMass normal_mass(double u) {
  constexpr double kScale = 0.79788456080286535588, kCubic = 0.044715;
  const double t = std::tanh(kScale * (u + kCubic * u * u * u));
  return {(1 + t) / 2, (1 - t * t) / 2 * kScale * (1 + 3 * kCubic * u * u)};
}

// t = 0. In float64, because differences of masses lose digits.
DTN_HOST_DEVICE static inline BoundTerm<double> decoder_term(const DiffusionStep& step,
                                                             double start, double difference,
                                                             double v) {
  constexpr double kHalfPixel = 1.0 / 255, kEdge = 0.999, kLeastMass = 1e-12;
  const double log_variance = step.log_variance + (v + 1) / 2 * step.log_range;
  const double scale = std::exp(-log_variance / 2), centre = step.gap * difference;
  const double high = scale * (centre + kHalfPixel), low = scale * (centre - kHalfPixel);
  const NormalMass at_high = normal_mass(high), at_low = normal_mass(low);
  // Derivatives by the log variance: high and low are proportional to `scale`.
  const double dhigh = -at_high.density * high / 2, dlow = -at_low.density * low / 2;
  double mass = at_high.below - at_low.below, dmass = dhigh - dlow;
  if (start < -kEdge) mass = at_high.below, dmass = dhigh;
  if (start > kEdge) mass = 1 - at_low.below, dmass = -dlow;
  if (mass < kLeastMass) return {-std::log(kLeastMass), 0};
  return {-std::log(mass), -dmass / mass * step.log_range / 2};
}

}  // namespace dtn
