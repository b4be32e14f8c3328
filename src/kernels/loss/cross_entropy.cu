// Softmax cross-entropy, one block per row; see cross_entropy.h for the formulas. The largest logit
// is subtracted before the exponential. The loss is computed from the shifted logits, so that a
// common offset does not cost digits.
//
// The logits are read from memory once: a row (2 KB for 1000 classes in bfloat16, 88 KB for 22k in
// float32) is still in the cache at the second read. The backward pass reads logits and writes
// dlogits. Each pass reads soft targets once; the backward pass reads them once more for their sum.
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/row_pieces.cuh"

namespace dtn {
namespace {

// Kinds of targets.
enum class Against { kLabels, kSharedLabels, kTargets };

// Labels of a row. `partner` is -1 if there is only one label, or if both are equal.
struct RowLabels {
  std::int64_t own, partner;
  float share;  // of `own`
  bool valid;   // all in [0, K)
};
template <Against kAgainst>
__device__ __forceinline__ RowLabels labels_of(const ClassTargets& a, std::int64_t row,
                                               std::int64_t classes) {
  RowLabels l{a.labels[row], -1, 1, false};
  l.valid = l.own >= 0 && l.own < classes;
  if constexpr (kAgainst == Against::kSharedLabels) {
    const std::int64_t partner = a.partner_labels[row];
    if (partner != l.own) {
      l.partner = partner;
      l.share = a.label_share[row];
      l.valid = l.valid && partner >= 0 && partner < classes;
    }
  }
  return l;
}

// Blocks: rows. One of `labels` and `targets` is null.
template <class T, bool kWide, Against kAgainst>
__global__ void cross_entropy_forward_kernel(const T* logits, std::int64_t classes, ClassTargets a,
                                             float* loss, float* lse) {
  using Row = RowPiece<T, kWide>;
  constexpr bool kTargets = kAgainst == Against::kTargets;
  DTN_SHARED(float, shared);
  const std::int64_t row = blockIdx.x;
  const T* z = logits + row * classes;
  const float* targets = static_cast<const float*>(a.targets);
  const float s = static_cast<float>(a.smoothing);

  float largest = -INFINITY;
  for_each_in_row<Row>(z, classes, [&](const Row& v, int i, std::int64_t) {
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) largest = cuda::max_or_nan(largest, v[i + k]);
  });
  largest = cuda::block_max(largest, shared);

  // With labels, `dot` is the sum of the shifted logits.
  const bool dotted = kTargets || s != 0;
  float exps = 0, weight = 0, dot = 0;
  for_each_in_row<Row>(z, classes, [&](const Row& v, int i, std::int64_t column) {
    float t[Row::kRun];
    if constexpr (kTargets) Row::load_float_run(targets + row * classes + column, t);
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) {
      const float shifted = v[i + k] - largest;
      exps += expf(shifted);
      if constexpr (kTargets) {
        weight += t[k];
        dot += t[k] == 0 ? 0.0f : t[k] * shifted;  // 0 even if `shifted` is infinite
      } else if (dotted) {
        dot += shifted;
      }
    }
  });
  const float log_sum = logf(cuda::block_sum(exps, shared));
  if (dotted) dot = cuda::block_sum(dot, shared);
  if (kTargets) weight = cuda::block_sum(weight, shared);
  if (threadIdx.x != 0) return;

  lse[row] = largest + log_sum;
  if constexpr (kTargets) {
    loss[row] = log_sum * weight - dot;
  } else {
    const RowLabels labels = labels_of<kAgainst>(a, row, classes);
    float at_label = labels.valid ? cuda::to_float(z[labels.own]) - largest : NAN;
    if (kAgainst == Against::kSharedLabels && labels.valid && labels.share != 1) {
      const float partner = cuda::to_float(z[labels.partner]) - largest;
      // A share of 0 gives a term of 0, even if the logit is -inf.
      at_label = labels.share == 0
                     ? partner
                     : __fmaf_rn(labels.share, at_label, (1 - labels.share) * partner);
    }
    loss[row] = dotted ? log_sum - (1 - s) * at_label - s / static_cast<float>(classes) * dot
                       : log_sum - at_label;
  }
}

// Blocks: rows. The thread that reads a logit also overwrites it.
template <class T, bool kWide, Against kAgainst>
__global__ void cross_entropy_backward_kernel(const T* logits, std::int64_t classes, ClassTargets a,
                                              const float* lse, float scale, const float* upstream,
                                              T* dlogits) {
  using Row = RowPiece<T, kWide>;
  constexpr bool kTargets = kAgainst == Against::kTargets;
  DTN_SHARED(float, shared);
  const std::int64_t row = blockIdx.x, first = row * classes;
  const float* targets = static_cast<const float*>(a.targets);
  const float log_z = lse[row];
  if (upstream) scale *= *upstream;

  float weight = 1, everywhere = 0, at_label = 0, at_partner = 0;
  std::int64_t label = -1, partner = -1;
  if constexpr (kTargets) {
    weight = 0;
    for (std::int64_t k = threadIdx.x; k < classes; k += blockDim.x) {
      weight += targets[first + k];
    }
    weight = cuda::block_sum(weight, shared);
  } else {
    const RowLabels labels = labels_of<kAgainst>(a, row, classes);
    const float s = static_cast<float>(a.smoothing);
    label = labels.own;
    if (!labels.valid) scale = NAN;
    everywhere = s / static_cast<float>(classes);
    at_label = 1 - s;
    if constexpr (kAgainst == Against::kSharedLabels) {
      partner = labels.partner;
      at_partner = at_label * (1 - labels.share);
      at_label *= labels.share;
    }
  }
  for_each_in_row<Row>(logits + first, classes, [&](const Row& v, int i, std::int64_t column) {
    float t[Row::kRun], dz[Row::kRun];
    if constexpr (kTargets) Row::load_float_run(targets + first + column, t);
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) {
      const float p = expf(v[i + k] - log_z);
      if constexpr (kTargets) {
        dz[k] = scale * (p * weight - t[k]);
      } else {
        float hot = column + k == label ? at_label : 0.0f;
        if (kAgainst == Against::kSharedLabels && column + k == partner) hot = at_partner;
        dz[k] = scale * (p - everywhere - hot);
      }
    }
    Row::store_run(dlogits + first + column, dz);
  });
}

template <Against kAgainst>
using AgainstConstant = std::integral_constant<Against, kAgainst>;

// Calls f(wide, against) with both as constants.
template <class Arguments, class F>
void with_constants(bool wide, const Arguments& args, F&& f) {
  auto with = [&](auto is_wide) {
    if (args.targets) return f(is_wide, AgainstConstant<Against::kTargets>{});
    if (args.partner_labels) return f(is_wide, AgainstConstant<Against::kSharedLabels>{});
    f(is_wide, AgainstConstant<Against::kLabels>{});
  };
  wide ? with(std::true_type{}) : with(std::false_type{});
}

}  // namespace

void run(CudaQueue& queue, const CrossEntropyForward& args) {
  for_cuda_dtype("cross_entropy_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0) return;
    with_constants(has_wide_rows<T>(args, args), args, [&](auto is_wide, auto against) {
      launch(queue, {"cross_entropy_forward", {args.rows, args.classes}},
             cross_entropy_forward_kernel<T, is_wide, against>,
             {blocks_for(args.rows, 1), threads_of_row(args.classes), kMaxRowWarps * sizeof(float)},
             static_cast<const T*>(args.logits), args.classes, args, static_cast<float*>(args.loss),
             static_cast<float*>(args.lse));
    });
  });
}

void run(CudaQueue& queue, const CrossEntropyBackward& args) {
  for_cuda_dtype("cross_entropy_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0) return;
    const bool wide =
        has_wide_rows<T>(args, args) && cuda::is_vectorizable<T>(args.dlogits, args.classes);
    with_constants(wide, args, [&](auto is_wide, auto against) {
      launch(queue, {"cross_entropy_backward", {args.rows, args.classes}},
             cross_entropy_backward_kernel<T, is_wide, against>,
             {blocks_for(args.rows, 1), threads_of_row(args.classes), kMaxRowWarps * sizeof(float)},
             static_cast<const T*>(args.logits), args.classes, args,
             static_cast<const float*>(args.lse), static_cast<float>(args.scale),
             static_cast<const float*>(args.upstream), static_cast<T*>(args.dlogits));
    });
  });
}

}  // namespace dtn
