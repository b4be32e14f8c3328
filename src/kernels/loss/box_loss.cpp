// L1 loss of box deltas, anchor by anchor; see box_loss.h for the formulas. Few anchors count, so
// the time goes to reading the labels, and in the backward pass to writing zeros.
#include "kernels/loss/box_loss.h"

#include <algorithm>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kAnchorsPerTask = 4096;

// The rows of one anchor.
template <class T>
struct AnchorRow {
  using A = AccumulatorOf<T>;
  bool counts;
  const T* deltas;
  const A* targets;

  AnchorRow(const BoxLossInputs& in, std::int64_t row) {
    const std::int64_t place = row / in.anchors * in.stride + row % in.anchors;
    counts = in.labels[place] >= 0;
    deltas = static_cast<const T*>(in.deltas) + row * kBoxDeltas;
    targets = static_cast<const A*>(in.targets) + place * kBoxDeltas;
  }
  A difference(int k) const { return static_cast<A>(deltas[k]) - targets[k]; }
};

template <class T>
double box_rows(const BoxLossForward& args, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const AnchorRow<T> anchor(args, row);
    if (!anchor.counts) continue;
    for (int k = 0; k < kBoxDeltas; ++k) {
      const double d = static_cast<double>(anchor.difference(k));
      sum += d < 0 ? -d : d;
    }
  }
  return sum;
}

template <class T>
void box_gradient_row(const BoxLossBackward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const AnchorRow<T> anchor(args, row);
  T* to = static_cast<T*>(args.ddeltas) + row * kBoxDeltas;
  if (!anchor.counts) {
    std::fill_n(to, kBoxDeltas, static_cast<T>(A(0)));
    return;
  }
  const A factor = *static_cast<const A*>(args.scale) * *static_cast<const A*>(args.upstream);
  for (int k = 0; k < kBoxDeltas; ++k) {
    const A d = anchor.difference(k);
    to[k] = static_cast<T>(d > 0 ? factor : d < 0 ? -factor : d == 0 ? A(0) : d);
  }
}

}  // namespace

void run(CpuQueue& queue, const BoxLossForward& args) {
  for_dtype("BoxLossForward", args.dtype, [&](auto zero) {
    using A = AccumulatorOf<decltype(zero)>;
    const std::int64_t chunks = (args.rows() + kAnchorsPerTask - 1) / kAnchorsPerTask;
    Scratch::Scope scope(queue.scratch());
    double* partial = scope.take<double>(chunks);
    parallel_ranges(args.rows(), kAnchorsPerTask, [&](std::int64_t begin, std::int64_t end) {
      partial[begin / kAnchorsPerTask] = box_rows<decltype(zero)>(args, begin, end);
    });
    double sum = 0;
    for (std::int64_t i = 0; i < chunks; ++i) sum += partial[i];
    const double scale = static_cast<double>(*static_cast<const A*>(args.scale));
    *static_cast<A*>(args.loss) = static_cast<A>(scale * sum);
  });
}

void run(CpuQueue&, const BoxLossBackward& args) {
  for_dtype("BoxLossBackward", args.dtype, [&](auto zero) {
    parallel_ranges(args.rows(), kAnchorsPerTask, [&](std::int64_t row, std::int64_t end) {
      for (; row < end; ++row) box_gradient_row<decltype(zero)>(args, row);
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(BoxLossForward)
DTN_DISPATCH(BoxLossBackward)
