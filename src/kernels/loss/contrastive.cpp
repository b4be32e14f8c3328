// Supervised contrastive loss by rows; see contrastive.h for the formulas. Each row is computed by
// one thread, so the result does not depend on the number of threads.
#include "kernels/loss/contrastive.h"

#include <algorithm>

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {
namespace {

// Calls f(j, count) for the vectors that cover [0, rows) without `self`.
template <class A, class F>
void for_each_other(std::int64_t self, std::int64_t rows, F&& f) {
  for_each_vector<A>(self, f);
  for_each_vector<A>(rows - self - 1, [&](std::int64_t j, auto count) { f(self + 1 + j, count); });
}

// Returns 1 in the lanes of rows with this label, else 0.
template <class A, class N>
Vec<A> same_label(const std::int64_t* labels, N count, std::int64_t label) {
  A same[kLanes<A>] = {};
  for (int i = 0; i < count; ++i) same[i] = labels[i] == label ? A(1) : A(0);
  return load(same);
}

template <class A>
A largest_other(const A* x, std::int64_t self, std::int64_t rows) {
  A rest = -static_cast<A>(__builtin_inf());
  Vec<A> largest = broadcast(rest);
  for_each_other<A>(self, rows, [&](std::int64_t j, auto count) {
    if constexpr (std::is_same_v<decltype(count), int>) {
      rest = std::max(rest, *std::max_element(x + j, x + j + count));
    } else {
      largest = max(largest, load(x + j));
    }
  });
  return std::max(rest, reduce_max(largest));
}

template <class A>
void contrast_row(const ContrastiveForward& args, std::int64_t row) {
  const A* x = static_cast<const A*>(args.products) + row * args.rows;
  const A per_temperature = static_cast<A>(1 / args.temperature);
  // The maximum may lose a NaN; exp below restores it.
  const A largest = largest_other(x, row, args.rows);
  Vec<A> exps{}, positives{}, shifted{};
  for_each_other<A>(row, args.rows, [&](std::int64_t j, auto count) {
    const Vec<A> s = (load_n(x + j, count) - largest) * per_temperature;
    const Vec<A> same = same_label<A>(args.labels + j, count, args.labels[row]);
    exps += keep_n(exp(s), count);
    positives += same;
    shifted += same * s;
  });
  const A log_sum = std::log(reduce_add(exps)), found = reduce_add(positives);
  const bool none = found == 0;
  static_cast<A*>(args.loss)[row] =
      none ? A(0) : static_cast<A>(args.scale) * (log_sum - reduce_add(shifted) / found);
  static_cast<A*>(args.lse)[row] =
      none ? static_cast<A>(__builtin_inf()) : largest * per_temperature + log_sum;
  static_cast<A*>(args.positives)[row] = found;
  args.without_positives[row] = none ? 1.0f : 0.0f;
}

template <class A>
void contrast_gradient(const ContrastiveBackward& args, std::int64_t anchor) {
  const std::int64_t rows = args.rows, row = args.positions ? args.positions[anchor] : anchor;
  A* gradient = static_cast<A*>(args.gradient) + anchor * rows;
  if (row < 0 || row >= rows) {
    std::fill_n(gradient, rows, static_cast<A>(__builtin_nan("")));
    return;
  }
  const A* x = static_cast<const A*>(args.products) + row * rows;
  const A* lse = static_cast<const A*>(args.lse);
  const A per_temperature = static_cast<A>(1 / args.temperature), lse_here = lse[row];
  const A found = static_cast<const A*>(args.positives)[row];
  const A share = found == 0 ? A(0) : 2 / found;
  A scale = static_cast<A>(args.scale);
  if (args.upstream) scale *= *static_cast<const A*>(args.upstream);
  for_each_other<A>(row, rows, [&](std::int64_t j, auto count) {
    const Vec<A> s = load_n(x + j, count) * per_temperature;
    const Vec<A> p = exp(s - lse_here) + exp(s - load_n(lse + j, count));
    const Vec<A> same = same_label<A>(args.labels + j, count, args.labels[row]);
    store_n(gradient + j, Vec<A>(scale * (p - share * same)), count);
  });
  gradient[row] = 0;
}

}  // namespace

void run(CpuQueue&, const ContrastiveForward& args) {
  for_accumulator_dtype("ContrastiveForward", args.dtype, [&](auto zero) {
    for_each_row(args.rows, args.rows,
                 [&](std::int64_t row) { contrast_row<decltype(zero)>(args, row); });
  });
}

void run(CpuQueue&, const ContrastiveBackward& args) {
  for_accumulator_dtype("ContrastiveBackward", args.dtype, [&](auto zero) {
    for_each_row(args.anchors, args.rows,
                 [&](std::int64_t anchor) { contrast_gradient<decltype(zero)>(args, anchor); });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(ContrastiveForward)
DTN_DISPATCH(ContrastiveBackward)
