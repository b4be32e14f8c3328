// Focal loss, logit by logit; see focal_loss.h for the formulas and its .cpp for the numerics.
#include "kernels/loss/anchor_sums.cuh"
#include "kernels/loss/focal_loss.h"

namespace dtn {
namespace {

// The term of one logit.
struct FocalTerm {
  float sign, weight;  // 1 - 2 t, w
  float softplus, wrong, right, power;

  __device__ __forceinline__ FocalTerm(float z, bool is_hot, float alpha, float gamma) {
    sign = is_hot ? -1.0f : 1.0f, weight = is_hot ? alpha : 1.0f - alpha;
    const float u = sign * z, e = expf(-fabsf(u)), log = log1pf(e);
    const float likely = 1.0f / (1.0f + e), unlikely = e * likely;
    // Both keep NaN.
    const float above = u < 0 ? 0.0f : u, below = u > 0 ? 0.0f : u;
    softplus = above + log;
    wrong = u < 0 ? unlikely : likely, right = u < 0 ? likely : unlikely;
    power = gamma == 2.0f ? wrong * wrong : expf(gamma * (below - log));
  }
  __device__ __forceinline__ float loss() const { return weight * (power * softplus); }
  __device__ __forceinline__ float slope(float gamma) const {
    const float finite = softplus > 1e4f ? 1e4f : softplus;  // 0 times infinity must be 0
    return power * (gamma * right * finite + wrong);
  }
};

// Label and class of a logit.
template <class Index>
struct FocalPlace {
  std::int64_t label, column;

  __device__ __forceinline__ FocalPlace(const FocalLossInputs& in, std::int64_t i) {
    const cuda::RowColumn at = cuda::row_and_column<Index>(i, in.classes);
    const cuda::RowColumn row = cuda::row_and_column<Index>(at.row, in.anchors);
    label = in.at(row.row, row.column), column = at.column;
  }
  __device__ __forceinline__ bool ignored() const { return label == kLabelIgnored; }
  __device__ __forceinline__ bool valid(const FocalLossInputs& in) const {
    return kLabelIgnored <= label && label < in.classes;
  }
};

template <class T, class Index>
struct FocalSum {
  FocalLossInputs in;

  __device__ __forceinline__ float operator()(std::int64_t i) const {
    const FocalPlace<Index> at(in, i);
    if (at.ignored()) return 0.0f;
    if (!at.valid(in)) return NAN;
    const float z = cuda::to_float(static_cast<const T*>(in.logits)[i]);
    return FocalTerm(z, at.column == at.label, static_cast<float>(in.alpha),
                     static_cast<float>(in.gamma))
        .loss();
  }
};

template <class T, class Index>
struct FocalGradientMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 1, kInputs = 1;
  FocalLossInputs in;
  const float* upstream;
  T* to;

  template <int n>
  __device__ void load(std::int64_t i, float (&z)[1][n]) const {
    cuda::load_values(static_cast<const T*>(in.logits) + i, z[0]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&z)[1][n]) const {
    const float factor = *static_cast<const float*>(in.scale) * *upstream;
    const float alpha = static_cast<float>(in.alpha), gamma = static_cast<float>(in.gamma);
    float dz[n];
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const FocalPlace<Index> at(in, i + k);
      const FocalTerm term(z[0][k], at.column == at.label, alpha, gamma);
      dz[k] = factor * term.weight * term.sign * term.slope(gamma);
      if (at.ignored()) dz[k] = 0;
      if (!at.valid(in)) dz[k] = NAN;
    }
    cuda::store_values(to + i, dz);
  }
};

}  // namespace

void run(CudaQueue& queue, const FocalLossForward& args) {
  for_cuda_dtype("focal_loss_forward", args.dtype, [&](auto zero) {
    const std::int64_t count = args.rows() * args.classes;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_scaled_sum(
          queue, "focal_loss_forward", FocalSum<decltype(zero), decltype(index)>{args}, count,
          {static_cast<const float*>(args.scale), static_cast<float*>(args.loss)});
    });
  });
}

void run(CudaQueue& queue, const FocalLossBackward& args) {
  for_cuda_dtype("focal_loss_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = args.rows() * args.classes;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_map(
          queue, "focal_loss_backward",
          FocalGradientMap<T, decltype(index)>{args, static_cast<const float*>(args.upstream),
                                               static_cast<T*>(args.dlogits)},
          count,
          cuda::is_vectorizable<T>(args.logits, 0) && cuda::is_vectorizable<T>(args.dlogits, 0));
    });
  });
}

}  // namespace dtn
