// The online softmax of the forward pass on tensor cores, in one pass over the keys.
//
// Its state is a shift m and the sum l of 2^(s - m), in base 2. The factor log2(e) scale is folded
// into one multiply-add. m need not be the largest score, only near it. If some score exceeds m by
// more than kSlack, m is raised and the sums are rescaled. So p is at most 2^kSlack, and the sums
// keep their precision. After the first keys most steps need no exchange between lanes.
#pragma once

#include "kernels/attention/attention_tensor.cuh"

namespace dtn::attention {

inline constexpr float kSlack = 8;

// The positional bias of a warp's rows, in base 2.
template <int R, bool kBiased>
struct RowBias {
  static constexpr bool kAny = kBiased;
  HeadBias<kBiased> bias;
  Places<kBiased, 2 * R> queries;  // row g + 8 i
  const Place* keys;               // ring buffer

  // s = scale s + bias, for 16 keys.
  __device__ __forceinline__ void add(float (&s)[R][2][4], int row, float scale) const {
    if constexpr (kBiased) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        PlacePair columns = load_places(keys + row % kRingRows + 8 * j);
#pragma unroll
        for (int i = 0; i < 4 * R; ++i) {
          float& v = s[i / 4][j][i % 4];
          v = fmaf(v, scale, bias(queries.at[i / 2], columns.at[i % 2]));
        }
      }
    }
  }
};

// Weights policy without dropout: all weights are kept.
struct AllWeights {
  static constexpr bool kDrops = false;
};

// Terms: adds terms to the scores, like RowBias. D and DV: columns of keys and of values.
template <int D, int R, class Terms, int DV = D>
struct OnlineSoftmax {
  float acc[R][DV / 8][4];
  float shift[R][2], sum[R][2];  // for rows g and g + 8

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) shift[r][half] = -INFINITY, sum[r][half] = 0;
#pragma unroll
      for (int n = 0; n < DV / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[r][n][i] = 0;
      }
    }
  }

  // Adds N x 16 more keys, of which the first `valid` exist. weights.draw(r, n) returns the mask of
  // the weights of tile r with keys 16 n to 16 n + 15; see WeightDropout.
  template <int N, class Weights>
  __device__ __forceinline__ void step(const unsigned (&q)[R][D / 16][4], const bfloat16* keys,
                                       const bfloat16* values, int valid, float scale,
                                       [[maybe_unused]] const Terms& terms,
                                       [[maybe_unused]] int row,
                                       [[maybe_unused]] const Weights& weights) {
    float s[N][R][2][4] = {};
#pragma unroll
    for (int n = 0; n < N; ++n) scores<D, R>(s[n], q, keys + n * 16 * kRowStride<D>);
    if (valid < N * 16) mask(s, valid);
    if constexpr (Terms::kAny) {
#pragma unroll
      for (int n = 0; n < N; ++n) terms.add(s[n], row + n * 16, scale);
      scale = 1;
    }
    raise_shift(s, scale);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      unsigned p[R][4];
#pragma unroll
      for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          int half = i % 4 / 2;
          // A row with only -infinity has no shift; its sum stays 0.
          float m = shift[r][half] == -INFINITY ? 0.0f : shift[r][half];
          float& v = s[n][r][i / 4][i % 4];
          v = cuda::exp2_approximate(fmaf(v, scale, -m));
          sum[r][half] += v;
        }
        if constexpr (Weights::kDrops) weights.apply(s[n][r], weights.draw(r, n));
        pack_operand(p[r], s[n][r]);
      }
      accumulate<DV, R>(acc, p, values + n * 16 * kRowStride<DV>);
    }
  }

  // Adds `count` keys with score 0 and value 0.
  __device__ __forceinline__ void take_zero_keys(int count) {
#pragma unroll
    for (int i = 0; i < 2 * R; ++i) {
      float &m = shift[i / 2][i % 2], &l = sum[i / 2][i % 2];
      const float top = fmaxf(m, 0.0f), before = cuda::exp2_approximate(m - top);
      // Each lane of a row holds a part of the row's sum, so only one lane adds `count`.
      const float mine = this_lane().t == 0 ? static_cast<float>(count) : 0.0f;
      l = fmaf(l, before, mine * cuda::exp2_approximate(-top));
      m = top;
#pragma unroll
      for (int n = 0; n < DV / 8; ++n) {
        acc[i / 2][n][2 * (i % 2)] *= before;
        acc[i / 2][n][2 * (i % 2) + 1] *= before;
      }
    }
  }

 private:
  template <int N>
  static __device__ __forceinline__ void mask(float (&s)[N][R][2][4], int valid) {
    int t = this_lane().t;
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        bool there = n * 16 + i / 4 * 8 + 2 * t + i % 2 < valid;
#pragma unroll
        for (int r = 0; r < R; ++r) {
          if (!there) s[n][r][i / 4][i % 4] = -INFINITY;
        }
      }
    }
  }

  template <int N>
  __device__ __forceinline__ void raise_shift(const float (&s)[N][R][2][4], float scale) {
    float top[R][2];
    bool above = false;
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float m = -INFINITY;
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            m = fmaxf(m, fmaxf(s[n][r][j][2 * half], s[n][r][j][2 * half + 1]));
          }
        }
        top[r][half] = m * scale;
        above = above || top[r][half] > shift[r][half] + kSlack;
      }
    }
    if (!__any_sync(cuda::kWholeWarp, above)) return;
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float m = max_of_quad(top[r][half]);
        // Each row is treated separately, so that its result does not depend on its neighbours.
        if (!(m > shift[r][half] + kSlack)) m = shift[r][half];
        float factor = m == shift[r][half] ? 1.0f : cuda::exp2_approximate(shift[r][half] - m);
        shift[r][half] = m;
        sum[r][half] *= factor;
#pragma unroll
        for (int n = 0; n < DV / 8; ++n) {
          acc[r][n][2 * half] *= factor;
          acc[r][n][2 * half + 1] *= factor;
        }
      }
    }
  }
};

}  // namespace dtn::attention
