// Sums over the groups of a row in PowerNorm's kernels; see power_norm.h.
//
// A warp holds a row in registers, in runs of adjacent columns that stay within one group. The sums
// of the runs go through shared memory. There a few lanes add up each group and write the results
// that all lanes need.
#pragma once

#include "kernels/cuda/lanes.cuh"
#include "kernels/norm/layer_norm_shape.cuh"
#include "kernels/norm/power_norm.h"

namespace dtn {

struct PowerNormGroups {
  int groups;
  int runs;     // per group
  int lanes;    // that add up a group; a power of two
  float share;  // 1 / D
  float eps;

  __device__ __forceinline__ float factor_of(float squares) const {
    return 1.0f / sqrtf(fmaf(squares, share, eps));
  }
  // Shared memory of a warp, in floats, for `sums` sums per run and `results` numbers per group.
  __host__ __device__ __forceinline__ int room(int sums, int results) const {
    return groups * (runs * sums + results);
  }
};

// Returns the groups of rows that are held in runs of `run` columns.
inline PowerNormGroups power_norm_groups(const PowerNormShape& s, int run) {
  const auto width = static_cast<int>(s.channels / s.groups);
  PowerNormGroups g{static_cast<int>(s.groups), width / run, 1, 1.0f / static_cast<float>(width),
                    static_cast<float>(s.eps)};
  while (g.lanes * 2 * s.groups <= cuda::kWarpSize) g.lanes *= 2;
  return g;
}

// Returns true if runs of 16 bytes stay within the groups and can be read at these addresses.
template <class T>
bool groups_are_wide(const PowerNormShape& s, std::initializer_list<const void*> places) {
  return s.channels / s.groups % cuda::kPerVector<T> == 0 && rows_are_wide<T>(s.channels, places);
}

// Groups of the runs of a lane.
template <class Row, int kValues>
struct RunGroups {
  static constexpr int kRuns = kValues / Row::kRun;
  int of[kRuns];

  __device__ __forceinline__ RunGroups(const PowerNormGroups& g, int lane, int channels) {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      const int c = Row::column(lane, i * Row::kRun);
      of[i] = c < channels ? c / Row::kRun / g.runs : 0;
    }
  }
};

// Sums room[k groups runs + run] over the runs of each group; the lanes have written these values
// before. One lane per group calls done(group, sums). All lanes of the warp must take part.
template <int kSums, class Done>
__device__ __forceinline__ void sum_groups(const PowerNormGroups& g, const float* room, int lane,
                                           Done&& done) {
  __syncwarp();
  const int part = lane % g.lanes, stride = g.groups * g.runs;
  for (int first = 0; first < g.groups; first += cuda::kWarpSize / g.lanes) {
    const int group = first + lane / g.lanes;
    float sums[kSums] = {};
    if (group < g.groups) {
      for (int run = group * g.runs + part; run < (group + 1) * g.runs; run += g.lanes) {
#pragma unroll
        for (int k = 0; k < kSums; ++k) sums[k] += room[k * stride + run];
      }
    }
    for (int offset = g.lanes / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        sums[k] += __shfl_xor_sync(cuda::kWholeWarp, sums[k], offset);
      }
    }
    if (group < g.groups && part == 0) done(group, sums);
  }
  __syncwarp();
}

// Returns s of every group of row x, in the warp's shared memory of g.room(1, 1) floats.
template <class Row, int kValues>
__device__ __forceinline__ const float* group_factors(const PowerNormGroups& g, const Row& x,
                                                      int lane, int channels, float* room) {
#pragma unroll
  for (int i = 0; i < kValues; i += Row::kRun) {
    const int c = Row::column(lane, i);
    float squares = 0;
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) squares = fmaf(x[i + k], x[i + k], squares);
    if (c < channels) room[c / Row::kRun] = squares;
  }
  float* factors = room + g.groups * g.runs;
  sum_groups<1>(g, room, lane,
                [&](int group, const float* squares) { factors[group] = g.factor_of(squares[0]); });
  return factors;
}

}  // namespace dtn
