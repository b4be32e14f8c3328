// Focal loss by rows; see focal_loss.h for the formulas. With e = e^-|u|, which never overflows,
//    softplus(u) = max(u, 0) + log(1 + e)
//    q = 1 / (1 + e) for u >= 0, else e / (1 + e)
//    q^gamma = e^(gamma (u - softplus(u)))
// So no digits are lost when an answer is almost certain. Gamma 2 needs no second exponential.
#include "kernels/loss/focal_loss.h"

#include <algorithm>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kRowsInVector = 8;  // rows that a vector sums before float64 does

// The terms of logits of wrong answers.
template <class V>
struct FocalTerms {
  V softplus, right, power;  // softplus(u), 1 - q, q^gamma
  V wrong;                   // q

  template <bool kSquare, class A>
  static FocalTerms at(V u, A gamma, std::bool_constant<kSquare>) {
    const V zero{}, size = u < A(0) ? -u : u;
    const V e = exp(-size), likely = A(1) / (A(1) + e), unlikely = e * likely;
    FocalTerms t;
    // The order of the operands of max keeps NaN.
    t.softplus = max(zero, u) + log_1_plus(e);
    t.wrong = u < A(0) ? unlikely : likely;
    t.right = u < A(0) ? likely : unlikely;
    if constexpr (kSquare) {
      t.power = t.wrong * t.wrong;
    } else {
      // u - softplus(u), without its cancellation.
      t.power = exp(gamma * (min(zero, u) - log_1_plus(e)));
    }
    return t;
  }
  V loss() const { return power * softplus; }
  template <class A>
  V slope(A gamma) const {
    const V finite = min(broadcast(A(1e4)), softplus);  // 0 times infinity must be 0
    return power * (gamma * right * finite + wrong);
  }
};

// Calls f(k, count, z, sign, weight) for the vectors of a row; `hot` is the class, or a background.
// sign is 1 - 2 t.
template <class T, class F>
inline void for_each_focal(const T* z, std::int64_t classes, std::int64_t hot, double alpha,
                           F&& f) {
  using A = AccumulatorOf<T>;
  const Vec<A> one = broadcast(A(1)), rest = broadcast(static_cast<A>(1 - alpha));
  if (hot < 0) {
    for_each_vector<A>(
        classes, [&](std::int64_t k, auto count) { f(k, count, load_n(z + k, count), one, rest); });
    return;
  }
  Vec<A> lanes{};
  for (int i = 0; i < kLanes<A>; ++i) lanes[i] = static_cast<A>(i);
  const Vec<A> own = broadcast(static_cast<A>(alpha));
  for_each_vector<A>(classes, [&](std::int64_t k, auto count) {
    const auto is_hot = lanes == static_cast<A>(hot - k);
    f(k, count, load_n(z + k, count), is_hot ? -one : one, is_hot ? own : rest);
  });
}

bool has_label(const FocalLossInputs& in, std::int64_t label) {
  return kLabelIgnored <= label && label < in.classes;
}

// Returns the sum of the losses of rows [begin, end).
template <class T, bool kSquare>
double focal_rows(const FocalLossForward& args, std::int64_t begin, std::int64_t end) {
  using A = AccumulatorOf<T>;
  const A gamma = static_cast<A>(args.gamma);
  double total = 0;
  for (std::int64_t first = begin; first < end; first += kRowsInVector) {
    const std::int64_t last = std::min(first + kRowsInVector, end);
    Vec<A> sum{};
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t label = args.at(row / args.anchors, row % args.anchors);
      if (label == kLabelIgnored) continue;
      if (!has_label(args, label)) return __builtin_nan("");
      for_each_focal(static_cast<const T*>(args.logits) + row * args.classes, args.classes, label,
                     args.alpha, [&](std::int64_t, auto count, Vec<A> z, Vec<A> sign, Vec<A> w) {
                       const auto t =
                           FocalTerms<Vec<A>>::at(sign * z, gamma, std::bool_constant<kSquare>{});
                       sum += keep_n(w * t.loss(), count);
                     });
    }
    total += static_cast<double>(reduce_add(sum));
  }
  return total;
}

template <class T, bool kSquare>
void focal_gradient_row(const FocalLossBackward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const std::int64_t label = args.at(row / args.anchors, row % args.anchors);
  T* dz = static_cast<T*>(args.dlogits) + row * args.classes;
  if (label == kLabelIgnored || !has_label(args, label)) {
    const A value = label == kLabelIgnored ? A(0) : static_cast<A>(__builtin_nan(""));
    std::fill_n(dz, args.classes, static_cast<T>(value));
    return;
  }
  const A factor = *static_cast<const A*>(args.scale) * *static_cast<const A*>(args.upstream);
  const A gamma = static_cast<A>(args.gamma);
  for_each_focal(static_cast<const T*>(args.logits) + row * args.classes, args.classes, label,
                 args.alpha, [&](std::int64_t k, auto count, Vec<A> z, Vec<A> sign, Vec<A> w) {
                   const auto t =
                       FocalTerms<Vec<A>>::at(sign * z, gamma, std::bool_constant<kSquare>{});
                   store_n(dz + k, factor * w * sign * t.slope(gamma), count);
                 });
}

// Calls f(zero of the type, whether gamma is 2) with constants.
template <class F>
void with_form(const char* kernel, const FocalLossInputs& in, F&& f) {
  for_dtype(kernel, in.dtype, [&](auto zero) {
    in.gamma == 2 ? f(zero, std::true_type{}) : f(zero, std::false_type{});
  });
}

std::int64_t focal_grain(const FocalLossInputs& in) {
  return std::max(row_grain(std::max<std::int64_t>(in.classes, 1)), kRowsInVector);
}

}  // namespace

void run(CpuQueue& queue, const FocalLossForward& args) {
  with_form("FocalLossForward", args, [&](auto zero, auto is_square) {
    using T = decltype(zero);
    using A = AccumulatorOf<T>;
    const std::int64_t grain = focal_grain(args), chunks = (args.rows() + grain - 1) / grain;
    Scratch::Scope scope(queue.scratch());
    double* partial = scope.take<double>(chunks);
    parallel_ranges(args.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
      partial[begin / grain] = focal_rows<T, decltype(is_square)::value>(args, begin, end);
    });
    double sum = 0;
    for (std::int64_t i = 0; i < chunks; ++i) sum += partial[i];
    const double scale = static_cast<double>(*static_cast<const A*>(args.scale));
    *static_cast<A*>(args.loss) = static_cast<A>(scale * sum);
  });
}

void run(CpuQueue&, const FocalLossBackward& args) {
  with_form("FocalLossBackward", args, [&](auto zero, auto is_square) {
    parallel_ranges(args.rows(), focal_grain(args), [&](std::int64_t row, std::int64_t end) {
      for (; row < end; ++row) {
        focal_gradient_row<decltype(zero), decltype(is_square)::value>(args, row);
      }
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(FocalLossForward)
DTN_DISPATCH(FocalLossBackward)
