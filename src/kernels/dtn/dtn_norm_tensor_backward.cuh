// Data movement of the backward pass of DTN on tensor cores: loads slices into shared memory,
// stores dx, and does the last steps of an image.
#pragma once

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/dtn/dtn_norm_tensor.cuh"

namespace dtn::tensor {

using cuda::kPerVector;
using cuda::kWarpSize;

// Compile-time block size: its warps, and the buffers per warp for slices.
template <int kWarps_, int kBuffers_>
struct BackwardBlock {
  static constexpr int kWarps = kWarps_, kBuffers = kBuffers_;
  // With twelve warps a lane has 168 registers. Operands of P and sums by token are then in memory.
  static constexpr bool kFewRegisters = kWarps > 8;
};
inline constexpr int kHeadSums = 5;  // lambda_mean, lambda_var, pos_weight

struct BackwardArguments {
  DtnNormBackward args;
  DtnSizes sizes;
  DtnAxis rows, columns;
  const uint4* operands;  // of P, see dtn_norm_operands.cuh; null unless kFewRegisters
  const float* bases;
  float *weight_sums, *bias_sums;   // [B, C]
  float* branch_sums;               // [B, C], of dbranch; or null
  float *lambda_mean, *lambda_var;  // [B, H]
  float* pos_weight;                // [B, H, 3]
};

// Tensors of one image.
template <class T>
struct ImageTensors {
  const T *x, *dy, *add;
  T* dx;

  __device__ __forceinline__ ImageTensors(const BackwardArguments& a, int index) {
    const std::int64_t image = std::int64_t{index} * a.sizes.image;
    x = static_cast<const T*>(a.args.x) + image;
    dy = static_cast<const T*>(a.args.dy) + image;
    add = a.args.dx_add ? static_cast<const T*>(a.args.dx_add) + image : nullptr;
    dx = a.args.dx ? static_cast<T*>(a.args.dx) + image : nullptr;
  }
};

// Slices of x and dy in the shared memory of a warp. A lane reads only the vectors that it copied
// itself, so the warp needs no barrier. The unfinished dx overwrites x and dy.
//
// With two buffers, a slice is fetched while the warp processes the previous one. With one buffer,
// the next fetch begins when dx of the current slice is stored. Other warps work during this time.
// Neighbouring slices share sectors of 32 bytes, so every second fetch finds its data in the
// second-level cache.
class StagedSlices {
 public:
  static constexpr int kTensor = kElements * kWarpSize;  // vectors of one slice of x or dy
  static constexpr int kBuffer = 2 * kTensor;

  __device__ __forceinline__ explicit StagedSlices(uint4* of_warp)
      : mine_(of_warp + lane_index()) {}

  template <class T>
  __device__ __forceinline__ void fetch(int buffer, const ImageTensors<T>& image, int channel,
                                        const LaneTokens& tokens) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const bool valid = tokens.valid(e);
      const int at = valid ? tokens.offset(e) + channel : 0;
      copies_.template copy<16>(vector(buffer, 0, e), image.x + at, valid);
      copies_.template copy<16>(vector(buffer, 1, e), image.dy + at, valid);
    }
  }
  __device__ __forceinline__ void commit() { copies_.commit(); }
  // Waits for all groups except the last kGroups.
  template <int kGroups>
  __device__ __forceinline__ void wait() {
    copies_.template wait<kGroups>();
  }

  // which: 0 is x, 1 is dy.
  __device__ __forceinline__ uint4* vector(int buffer, int which, int e) const {
    return mine_ + buffer * kBuffer + which * kTensor + e * kWarpSize;
  }
  __device__ __forceinline__ unsigned& word(int buffer, int which, int e, int w) const {
    return reinterpret_cast<unsigned*>(vector(buffer, which, e))[w];
  }

 private:
  uint4* mine_;
  cuda::AsyncCopies copies_;
};

// Shared memory of a block: slices, token statistics, sums over channels and over heads.
struct Shared {
  static constexpr int kSumsOfWarp = 2 * kPositions;  // of token_sums

  uint4* staged;      // [warps, buffers, StagedSlices::kBuffer]
  float2* terms;      // [kPositions] by slot: token mean and variance
  float* token_sums;  // [warps, kSumsOfWarp], see mean_sum() and var_sum()
  float* head_sums;   // [slices, kHeadSums]; sums of a run of slices are at its last slice

  __device__ Shared(uint4* memory, int warps, int buffers)
      : staged(memory),
        terms(reinterpret_cast<float2*>(memory + warps * buffers * StagedSlices::kBuffer)),
        token_sums(reinterpret_cast<float*>(terms + kPositions)),
        head_sums(token_sums + warps * kSumsOfWarp) {}
  // Indices into the sums of a warp. Two neighbouring slots share four floats: two means, then two
  // variances.
  static __device__ __forceinline__ int mean_sum(int slot) { return slot / 2 * 4 + slot % 2; }
  static __device__ __forceinline__ int var_sum(int slot) { return mean_sum(slot) + 2; }
  // Column sums of dbranch of a warp, [C]. They overwrite the slices, which must be finished.
  __device__ __forceinline__ float* column_sums(int warp, int channels) const {
    return reinterpret_cast<float*>(staged) + warp * channels;
  }
  static std::size_t bytes(int slices, int warps, int buffers) {
    return sizeof(uint4) * static_cast<std::size_t>(warps * buffers * StagedSlices::kBuffer) +
           sizeof(float2) * kPositions +
           sizeof(float) * static_cast<std::size_t>(warps * kSumsOfWarp + slices * kHeadSums);
  }
};
static_assert(kMaxChannels <= 4 * StagedSlices::kBuffer);  // column_sums() of a warp fit its slices

// Sums of l_mu dmu and l_va dvar by token, over all channels of the warp's slices. A lane has the
// sums of its tokens, for pairs of elements: (mean, mean, var, var). They are in registers or in
// the shared memory of the warp.
template <bool kInRegisters>
class TokenSums {
 public:
  __device__ __forceinline__ explicit TokenSums(float* of_warp)
      : shared_(reinterpret_cast<float4*>(of_warp) + lane_index()) {
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) set(pair, make_float4(0, 0, 0, 0));
  }
  __device__ __forceinline__ float4 get(int pair) const {
    if constexpr (kInRegisters) return kept_[pair];
    return shared_[pair * kWarpSize];
  }
  __device__ __forceinline__ void set(int pair, const float4& sums) {
    if constexpr (kInRegisters) {
      kept_[pair] = sums;
    } else {
      shared_[pair * kWarpSize] = sums;
    }
  }
  // Copies the sums to shared memory, for the other warps.
  __device__ __forceinline__ void store() const {
    if constexpr (kInRegisters) {
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) shared_[pair * kWarpSize] = kept_[pair];
    }
  }

 private:
  static constexpr int kPairs = kElements / 2;

  float4* shared_;
  float4 kept_[kInRegisters ? kPairs : 1];
};

// Sums of a lane over a run of slices of one head. lambda_mean and lambda_var still lack the
// factors -1 and -1/2.
struct HeadSums {
  float lambda_mean = 0, lambda_var = 0;
  Tile rows, columns;  // dPx and dPy
};

// Stores dx of a slice, rounded: with dx_add, but without the terms through mu_ln and var_ln.
template <class T>
__device__ __forceinline__ void store_slice(const StagedSlices& staged, int buffer, int channel,
                                            const LaneTokens& tokens,
                                            const ImageTensors<T>& image) {
  constexpr int n = kPerVector<T>;
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    if (!tokens.valid(e)) continue;
    const int at = tokens.offset(e) + channel;
    float v[n];
#pragma unroll
    for (int k = 0; k < kPerWord<T>; ++k) {
      const float4 part = *reinterpret_cast<const float4*>(staged.vector(buffer, k, e));
      v[k] = part.x, v[kPerWord<T> + k] = part.y;
      v[2 * kPerWord<T> + k] = part.z, v[3 * kPerWord<T> + k] = part.w;
    }
    if (image.add) {
      float more[n];
      cuda::load_vector<T>(image.add + at, more);
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] += more[k];
    }
    cuda::store_vector<T>(image.dx + at, v);
  }
}

// Computes the terms through mu_ln and var_ln at each position from the sums of the warps:
//    dx += constant + (x - mu_ln) slope
// constant and slope overwrite the mean and variance sums of the first warp.
__device__ __forceinline__ void make_slopes(const BackwardArguments& a, const Shared& shared) {
  const float inverse = 1 / static_cast<float>(a.sizes.channels);
  for (int slot = static_cast<int>(threadIdx.x); slot < kPositions;
       slot += static_cast<int>(blockDim.x)) {
    float mean = 0, var = 0;
    for (int w = 0; w < warps_of_block(); ++w) {
      const float* of_warp = shared.token_sums + w * Shared::kSumsOfWarp;
      mean += of_warp[Shared::mean_sum(slot)];
      var += of_warp[Shared::var_sum(slot)];
    }
    shared.token_sums[Shared::mean_sum(slot)] = mean * inverse;
    shared.token_sums[Shared::var_sum(slot)] = 2 * var * inverse;
  }
}

// Adds the terms through mu_ln and var_ln to dx, and computes dbranch. The warps take the tokens in
// turn, for one vector of channels per lane at a time. Column sums of dbranch overwrite the slices.
template <class T>
__device__ __forceinline__ void finish_tokens(const BackwardArguments& a, const Shared& shared,
                                              const ImageTensors<T>& image) {
  T* dbranch = nullptr;
  float scale = 0;
  if (a.args.dbranch) {
    dbranch = static_cast<T*>(a.args.dbranch) + std::int64_t{blockIdx.x} * a.sizes.image;
    scale = static_cast<const float*>(a.args.branch_scale)[blockIdx.x];
  }
  constexpr int n = kPerVector<T>;
  const int warp = forgotten(static_cast<int>(threadIdx.x)) / kWarpSize;
  const int channels = static_cast<int>(a.sizes.channels);
  const float base = a.bases[blockIdx.x];
  const GridRow row_of_token(a.sizes.grid_w);
#pragma unroll 1
  for (int c = lane_index() * n; c < channels; c += kWarpSize * n) {
    float sums[n] = {};
#pragma unroll 2
    for (int t = warp; t < a.sizes.tokens; t += warps_of_block()) {
      const int row = row_of_token(t), slot = slot_of(row, t - row * a.sizes.grid_w);
      const float constant = shared.token_sums[Shared::mean_sum(slot)];
      const float slope = shared.token_sums[Shared::var_sum(slot)];
      const float mean = shared.terms[slot].x, centre = base + mean;
      const int at = t * channels + c;
      float v[n], d[n];
      cuda::load_vector<T>(image.x + at, v);
      cuda::load_vector<T>(image.dx + at, d);
#pragma unroll
      for (int k = 0; k < n; ++k) {
        // For a bfloat16 x the rounding of base + mean is negligible.
        const float centred = kPerWord<T> == 2 ? v[k] - centre : (v[k] - base) - mean;
        d[k] += centred * slope + constant;
      }
      cuda::store_vector<T>(image.dx + at, d);
      if (!dbranch) continue;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        d[k] = scale * cuda::to_float(cuda::from_float<T>(d[k]));
        sums[k] += d[k];
      }
      cuda::store_vector<T>(dbranch + at, d);
    }
    if (a.branch_sums) cuda::store_values(shared.column_sums(warp, channels) + c, sums);
  }
}

// Sums the columns of dbranch of an image over the warps, in order.
__device__ __forceinline__ void finish_columns(const BackwardArguments& a, const Shared& shared) {
  const int channels = static_cast<int>(a.sizes.channels);
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int w = 0; w < warps_of_block(); ++w) sum += shared.column_sums(w, channels)[c];
    a.branch_sums[std::int64_t{blockIdx.x} * channels + c] = sum;
  }
}

// Sums the gradients of an image's heads over the runs of slices, in order.
__device__ __forceinline__ void finish_heads(const BackwardArguments& a, const Shared& shared,
                                             int slices) {
  const int per_head = slices / a.sizes.heads, heads = a.sizes.heads;
  for (int i = static_cast<int>(threadIdx.x); i < heads * kHeadSums;
       i += static_cast<int>(blockDim.x)) {
    const int h = i / kHeadSums, k = i % kHeadSums;
    float sum = 0;
    for (int s = h * per_head; s < (h + 1) * per_head; ++s) {
      sum += shared.head_sums[s * kHeadSums + k];
    }
    const std::int64_t at = std::int64_t{blockIdx.x} * heads + h;
    if (k == 0) {
      a.lambda_mean[at] = sum;
    } else if (k == 1) {
      a.lambda_var[at] = sum;
    } else {
      a.pos_weight[at * 3 + k - 2] = sum;
    }
  }
}

}  // namespace dtn::tensor
