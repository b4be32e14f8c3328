// Shared parts of the kernels of depthwise convolutions on a device.
#pragma once

#include "kernels/conv/depthwise_map.h"
#include "kernels/cuda/elementwise.cuh"

namespace dtn::depthwise {

inline constexpr int kThreads = 256;
inline constexpr int kBeside = 4;  // adjacent places of a thread
// Blocks per multiprocessor, for the launch bounds. Without it the compiler uses fewer registers
// than a thread's places need.
inline constexpr int kBlocks = 2;
inline constexpr int kWarps = 8;   // per block, for the gradient of the kernel
inline constexpr int kVector = 4;  // channels of a thread, if they are aligned

// True if a place has 3 x 3 sources, and the sources of the next place are one column or row
// further.
inline bool slides_3x3(const Map& map) {
  return map.h.taps == 3 && map.w.taps == 3 && map.h.source_step == 1 && map.w.source_step == 1 &&
         map.w.sources < (1 << 30);
}

// A thread's places and channels. Threads are [image, group of kRows rows, group of kBeside places,
// vector of n channels], the last innermost.
template <int n, int kRows>
struct ThreadPlaces {
  std::int64_t image, row, first, channel;

  static std::int64_t threads(const Map& map) {
    return map.batch * ((map.h.count + kRows - 1) / kRows) *
           ((map.w.count + kBeside - 1) / kBeside) * (map.channels / n);
  }
  template <class Index>
  static __device__ __forceinline__ ThreadPlaces of(const Map& map, std::int64_t thread) {
    const auto vector = cuda::row_and_column<Index>(thread, map.channels / n);
    const auto run = cuda::row_and_column<Index>(vector.row, (map.w.count + kBeside - 1) / kBeside);
    const auto rows = cuda::row_and_column<Index>(run.row, (map.h.count + kRows - 1) / kRows);
    return {rows.row, rows.column * kRows, run.column * kBeside, vector.column * n};
  }
};

template <int n>
__device__ __forceinline__ void begin_sums(const float* bias, std::int64_t channel,
                                           float (&sum)[kBeside][n]) {
#pragma unroll
  for (int q = 0; q < kBeside; ++q) {
#pragma unroll
    for (int k = 0; k < n; ++k) sum[q][k] = bias ? bias[channel + k] : 0.0f;
  }
}
// Stores the sums to `row`, a row of places of the image.
template <class Places, int n, class T>
__device__ __forceinline__ void store_sums(const Map& map, const Places& at, std::int64_t row,
                                           const float (&sum)[kBeside][n], T* to) {
  T* line = to + (at.image * map.height + map.h.place(row)) * map.width * map.channels + at.channel;
#pragma unroll
  for (int q = 0; q < kBeside; ++q) {
    if (at.first + q < map.w.count) {
      cuda::store_values(line + map.w.place(at.first + q) * map.channels, sum[q]);
    }
  }
}

// The functions below are for maps with slides_3x3 and vectors of kVector channels
// (depthwise_tokens_3x3.cu).

// Computes `to` from `from`; weight is [taps, C] in float32.
template <class T>
void correlate_3x3(CudaQueue& queue, const char* name, const Map& map, const T* from,
                   const float* weight, const float* bias, T* to);

// Sums for the nine taps and the bias: partials [chunks, 10, C], with rows_per_chunk rows of places
// per chunk.
template <class T>
void weight_sums_3x3(CudaQueue& queue, const Map& map, const T* x, const T* dy, std::int64_t rows,
                     std::int64_t rows_per_chunk, float* partials);

}  // namespace dtn::depthwise
