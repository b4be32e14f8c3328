// Loss of an image-to-image model, piece by piece; see pixel_loss.h for the formulas.
#include "kernels/loss/pixel_loss.h"

#include <algorithm>
#include <cmath>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

template <class T>
void sum_piece(const PixelLossForward& args, std::int64_t piece) {
  using A = AccumulatorOf<T>;
  const T* output = static_cast<const T*>(args.output);
  const A* target = static_cast<const A*>(args.target);
  const std::int64_t end = std::min(args.values, (piece + 1) * kPixelPiece);
  const double eps = args.weights.eps;
  double l1 = 0, l2 = 0, charbonnier = 0;
  for (std::int64_t i = piece * kPixelPiece; i < end; ++i) {
    const double d = static_cast<A>(output[i]) - target[i];
    l1 += std::abs(d);
    l2 += d * d;
    charbonnier += std::sqrt(d * d + eps * eps);
  }
  double* sums = args.sums + piece * kPixelTerms;
  sums[0] = l1;
  sums[1] = l2;
  sums[2] = charbonnier;
}

template <class T>
void write_slopes(const PixelLossBackward& args, std::int64_t begin, std::int64_t end) {
  using A = AccumulatorOf<T>;
  const T* output = static_cast<const T*>(args.output);
  const A* target = static_cast<const A*>(args.target);
  T* to = static_cast<T*>(args.doutput);
  const double each =
      static_cast<double>(*static_cast<const A*>(args.upstream)) / static_cast<double>(args.values);
  const A l1 = static_cast<A>(each * args.weights.l1);
  const A l2 = static_cast<A>(2 * each * args.weights.l2);
  const A charbonnier = static_cast<A>(each * args.weights.charbonnier);
  const A eps_squared = static_cast<A>(args.weights.eps * args.weights.eps);
  for (std::int64_t i = begin; i < end; ++i) {
    const A d = static_cast<A>(output[i]) - target[i];
    A slope = l2 * d + (d > 0 ? l1 : d < 0 ? -l1 : 0 * d);  // NaN stays NaN
    if (charbonnier != 0) slope += charbonnier * d / std::sqrt(d * d + eps_squared);
    to[i] = T(slope);
  }
}

}  // namespace

void run(CpuQueue&, const PixelLossForward& args) {
  for_dtype("PixelLossForward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_ranges(pixel_pieces(args.values), 1, [&](std::int64_t piece, std::int64_t end) {
      for (; piece < end; ++piece) sum_piece<T>(args, piece);
    });
    write_pixel_loss<AccumulatorOf<T>>(args);
  });
}

void run(CpuQueue&, const PixelLossBackward& args) {
  for_dtype("PixelLossBackward", args.dtype, [&](auto zero) {
    parallel_ranges(args.values, kPixelPiece, [&](std::int64_t begin, std::int64_t end) {
      write_slopes<decltype(zero)>(args, begin, end);
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(PixelLossForward)
DTN_DISPATCH(PixelLossBackward)
