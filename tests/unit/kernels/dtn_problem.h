// Problems for the dense oracle and tolerances, shared by the tests of DTN's CPU kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "dense_dtn.h"
#include "kernels/dtn/dtn_norm.h"
#include "unit/kernels/errors.h"

namespace dtn::test {

template <class T>
Doubles normal_doubles(std::int64_t n, unsigned seed, double mean = 0, double std = 1) {
  return doubles(normal_values<T>(n, seed, mean, std));
}

// A problem without positions. Its values are exact in T, so the oracle sees the same values.
template <class T>
DenseDtn make_content(int batch, int grid_h, int grid_w, int channels, int heads,
                      DtnVariant variant, int pool, double mean) {
  using A = AccumulatorOf<T>;
  DenseDtn p{batch, grid_h, grid_w, channels, heads};
  p.official = variant == DtnVariant::kOfficial;
  p.pool = pool;
  p.x = normal_doubles<T>(std::int64_t{batch} * p.tokens() * channels, 1, mean, 1);
  p.weight = normal_doubles<A>(channels, 2, 1, 0.3);
  p.bias = normal_doubles<A>(channels, 3, 0, 0.3);
  for (int h = 0; h < heads; ++h) {
    p.lambda_mean.push_back(static_cast<A>((h + 1.0) / (heads + 2)));
    p.lambda_var.push_back(static_cast<A>(1 - (h + 1.0) / (heads + 3)));
  }
  return p;
}

// Makes all tokens of the first image constant, and half of the tokens of the others.
inline void make_rows_constant(DenseDtn& p) {
  for (int b = 0; b < p.batch; ++b) {
    for (int t = 0; t < p.tokens(); ++t) {
      if (b > 0 && t % 2) continue;
      for (int c = 0; c < p.channels; ++c) p.x[p.at(b, t, c)] = b > 0 ? 0.5 * (t % 3) : 2;
    }
  }
}

template <class T>
Doubles cotangent_of(const DenseDtn& p) {
  return normal_doubles<T>(static_cast<std::int64_t>(p.x.size()), 9);
}

template <class To>
std::vector<To> to(const Doubles& from) {
  std::vector<To> out;
  for (double v : from) out.push_back(static_cast<To>(static_cast<AccumulatorOf<To>>(v)));
  return out;
}

struct NamedGradient {
  const char* name;
  Doubles DenseDtn::Gradients::*member;
};
inline constexpr NamedGradient kGradients[] = {
    {"dx", &DenseDtn::Gradients::x},
    {"dweight", &DenseDtn::Gradients::weight},
    {"dbias", &DenseDtn::Gradients::bias},
    {"dlambda_mean", &DenseDtn::Gradients::lambda_mean},
    {"dlambda_var", &DenseDtn::Gradients::lambda_var},
    {"dpos_weight", &DenseDtn::Gradients::pos_weight},
    {"dtable", &DenseDtn::Gradients::position_table},
};

// float32: 1e-5 of the largest element. bfloat16: stored results may also be off by half a unit in
// the last of 8 bits.
template <class T>
constexpr double tolerance() {
  return std::is_same_v<T, double> ? 1e-11 : 1e-5;
}
template <class T>
constexpr double stored_tolerance() {
  return tolerance<T>() + (std::is_same_v<T, bfloat16> ? 0x1p-8 : 0);
}

// Compares the gradients of a kernel with those of the oracle, one by one.
template <class T>
void expect_near(const DenseDtn::Gradients& got, const DenseDtn::Gradients& expected) {
  for (const NamedGradient& g : kGradients) {
    const double allowed =
        g.member == &DenseDtn::Gradients::x ? stored_tolerance<T>() : tolerance<T>();
    ASSERT_EQ((got.*g.member).size(), (expected.*g.member).size()) << g.name;
    EXPECT_LE(error(got.*g.member, expected.*g.member), allowed) << g.name;
  }
}

inline std::string shape_text(const DenseDtn& p) {
  return cat("B", p.batch, " ", p.grid_h, "x", p.grid_w, " C", p.channels, " H", p.heads, " pool ",
             p.pool, p.official ? " official" : " paper");
}

}  // namespace dtn::test
