// Loss of an image-to-image model. With d = output - target over all N elements:
//    loss = l1 mean |d| + l2 mean d^2 + charbonnier mean sqrt(d^2 + eps^2)
// Sums are in float64, piece by piece in order. "acc" is the accumulator type of the output:
// float32, or float64 for float64, which runs on the CPU only.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "dtn/core/host_device.h"

namespace dtn {

// Weights of the three means, and the eps of the last.
struct PixelLossWeights {
  double l1, l2, charbonnier, eps;
};

// Inputs of both directions.
struct PixelLossInputs {
  DType dtype;          // of the output
  std::int64_t values;  // N
  PixelLossWeights weights;
  const void* output;  // [N]
  const void* target;  // [N] acc
};

// Number of elements whose sum a thread on the CPU, or a block of threads, computes.
inline constexpr std::int64_t kPixelPiece = 16384;
constexpr std::int64_t pixel_pieces(std::int64_t values) {
  return (values + kPixelPiece - 1) / kPixelPiece;
}
inline constexpr int kPixelTerms = 3;

struct PixelLossForward : PixelLossInputs {
  double* sums;  // [pixel_pieces(N), kPixelTerms], workspace
  void* means;   // [kPixelTerms] acc: of |d|, d^2 and sqrt(d^2 + eps^2)
  void* loss;    // [1] acc
};
void run(CpuQueue&, const PixelLossForward&);
void run(CudaQueue&, const PixelLossForward&);

//    doutput = upstream / N (l1 sign d + 2 l2 d + charbonnier d / sqrt(d^2 + eps^2))
// with sign 0 = 0.
struct PixelLossBackward : PixelLossInputs {
  const void* upstream;  // [1] acc
  void* doutput;         // [N], written (=); may be `output`
};
void run(CpuQueue&, const PixelLossBackward&);
void run(CudaQueue&, const PixelLossBackward&);

// Means and loss from the sums of all pieces.
template <class A>
DTN_HOST_DEVICE static inline void write_pixel_loss(const PixelLossForward& args) {
  double total[kPixelTerms] = {};
  for (std::int64_t piece = 0; piece < pixel_pieces(args.values); ++piece) {
    for (int k = 0; k < kPixelTerms; ++k) total[k] += args.sums[piece * kPixelTerms + k];
  }
  const double weights[kPixelTerms] = {args.weights.l1, args.weights.l2, args.weights.charbonnier};
  double loss = 0;
  for (int k = 0; k < kPixelTerms; ++k) {
    const double mean = total[k] / static_cast<double>(args.values);
    static_cast<A*>(args.means)[k] = static_cast<A>(mean);
    loss += weights[k] * mean;
  }
  *static_cast<A*>(args.loss) = static_cast<A>(loss);
}

}  // namespace dtn
