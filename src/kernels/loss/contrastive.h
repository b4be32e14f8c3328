// Supervised contrastive loss (Khosla et al., "Supervised contrastive learning", NeurIPS 2020) from
// the products x_ij = a_i . a_j of all m rows, with the temperature t:
//    s_ij   = x_ij / t
//    P(i)   = rows j != i with the label of row i
//    lse_i  = log sum_{j != i} exp s_ij
//    loss_i = scale (lse_i - mean over p in P(i) of s_ip)
// The largest s_ij is subtracted before the exponential. A row without positives has loss 0. Its
// lse is stored as infinity, so that exp(s_ij - lse_i) is 0 in the backward pass.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// Arguments of both directions.
struct ContrastiveArguments {
  DType dtype;                 // float32, or on the CPU float64
  std::int64_t rows;           // m
  const void* products;        // [m, m], symmetric
  const std::int64_t* labels;  // [m]
  double temperature;          // t > 0
};

struct ContrastiveForward : ContrastiveArguments {
  double scale;
  void* loss;                // [m]
  void* lse;                 // [m], for backward
  void* positives;           // [m], |P(i)|, for backward
  float* without_positives;  // [m], 1 if P(i) is empty, else 0
};
void run(CpuQueue&, const ContrastiveForward&);
void run(CudaQueue&, const ContrastiveForward&);

// Gradient of
//    scale t sum_i (lse_i - mean over p in P(i) of s_ip)
// with respect to the products of the anchors. Anchor r is row q = positions[r]. The products are
// symmetric, so a row of G is the sum of the gradients of x_qj and x_jq:
//    G_rj = scale upstream (exp(s_qj - lse_q) + exp(s_qj - lse_j) - 2 [j in P(q)] / |P(q)|)
//    G_rq = 0
// The gradient of row q itself is then sum_j G_rj a_j. A position outside [0, m) gives a row of
// NaN.
struct ContrastiveBackward : ContrastiveArguments {
  std::int64_t anchors;           // n
  const std::int64_t* positions;  // [n]; null: 0 .. n - 1
  const void* lse;                // [m]
  const void* positives;          // [m]
  double scale;
  void* gradient;                  // [n, m]; may be `products` if positions is null
  const void* upstream = nullptr;  // [1]: factor, on the device of gradient
};
void run(CpuQueue&, const ContrastiveBackward&);
void run(CudaQueue&, const ContrastiveBackward&);

}  // namespace dtn
