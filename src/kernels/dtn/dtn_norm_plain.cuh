// Shared by the forward and backward kernels of the plain path of DTN.
//
// A block processes all tokens of some channels, at most 32, of one head of one image. It works on
// float32 planes [T, width]: its slice of x minus the pivot, and the results of the passes. The
// planes are in shared memory if they fit, which is true for grids up to about 32 x 32 in the
// forward pass and 20 x 20 in the backward pass. Larger planes are in global scratch memory, mostly
// served by the caches. A thread always has the same channel, so that sums over tokens stay in
// registers: thread k has channel k % width and belongs to group k / width. The groups divide the
// tokens, or the blocks of outputs of the grid's lines, among themselves.
#pragma once

#include <algorithm>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/dtn/dtn_norm_cuda.cuh"

namespace dtn::plain {

inline constexpr int kThreads = 256;
inline constexpr int kMaxWidth = cuda::kWarpSize;
inline constexpr int kOutputs = 8;  // outputs of a pass that a thread computes together
// Number of blocks of kOutputs along an axis.
__host__ __device__ __forceinline__ int output_blocks(int n) {
  return (n + kOutputs - 1) / kOutputs;
}

// For each block of outputs of a pass along an axis: the inputs that are not all multiplied by 0. P
// is usually a narrow window on a wide grid.
struct AxisReads {
  DtnSpan *forth, *back;  // by P, and by its transpose

  static __host__ __device__ int count(const DtnSizes& sizes) {  // of both axes
    return 2 * (output_blocks(sizes.grid_w) + output_blocks(sizes.grid_h));
  }
  // Advances `at` beyond the spans. All threads of a block call it, and need a barrier before they
  // read the spans.
  __device__ __forceinline__ AxisReads(const DtnAxis& axis, int head, DtnSpan*& at)
      : forth(at), back(at + output_blocks(axis.n)) {
    const int n = axis.n, blocks = output_blocks(n);
    const DtnSpan* seen = axis.seen + std::int64_t{head} * n;
    for (int i = static_cast<int>(threadIdx.x); i < 2 * blocks; i += kThreads) {
      const bool by_transpose = i >= blocks;
      const int first = (by_transpose ? i - blocks : i) * kOutputs;
      const int last = std::min(first + kOutputs, n);
      DtnSpan reads{n, 0};
      for (int row = by_transpose ? 0 : first; row < (by_transpose ? n : last); ++row) {
        const DtnSpan sees = seen[row];
        if (by_transpose && !sees.meets(first, last)) continue;
        reads.begin = std::min(reads.begin, by_transpose ? row : sees.begin);
        reads.end = std::max(reads.end, by_transpose ? row + 1 : sees.end);
      }
      at[i] = reads;
    }
    at += 2 * blocks;
  }
};

// Reads of one head for the passes along the rows of the grid and down its columns.
struct Reads {
  AxisReads rows, columns;

  __device__ __forceinline__ Reads(const DtnAxis& of_rows, const DtnAxis& of_columns, int head,
                                   DtnSpan* shared)
      : rows(of_rows, head, shared), columns(of_columns, head, shared) {}
};

// Division of heads into slices of channels.
struct Slicing {
  int parts, width;  // slices per head, channels per slice; the last slice may have fewer
  bool in_shared;    // true if the planes are in shared memory
  int plane;         // elements of a plane
  int planes;
  std::size_t reads_bytes;

  Slicing(const DtnSizes& sizes, int plane_count)
      : planes(plane_count),
        reads_bytes(sizeof(DtnSpan) * static_cast<std::size_t>(AxisReads::count(sizes))) {
    // Any device gives a block 99 KiB; sums over the block take 3 KiB of it.
    const std::int64_t shared_bytes = 96 * 1024 - static_cast<std::int64_t>(reads_bytes);
    const std::int64_t bytes_per_channel = std::int64_t{4} * planes * sizes.tokens;
    // Slices of fewer than 8 channels would waste most of the memory traffic.
    in_shared = bytes_per_channel * std::min(8, sizes.head_dim) <= shared_bytes;
    const std::int64_t fits = in_shared ? shared_bytes / bytes_per_channel : kMaxWidth;
    const int most = static_cast<int>(std::min<std::int64_t>(fits, kMaxWidth));
    parts = (sizes.head_dim + most - 1) / most;
    width = (sizes.head_dim + parts - 1) / parts;
    plane = sizes.tokens * width;
  }

  // Shared memory of a block: Reads, `sums` floats, and the planes if they are in shared memory.
  std::size_t shared_bytes(int sums) const {
    return reads_bytes +
           sizeof(float) * static_cast<std::size_t>(sums + (in_shared ? planes * plane : 0));
  }
};

// The slices of one launch, from `first` on, among those of some heads of all images.
struct Range {
  std::int64_t first;
  int first_head, heads;
};

// The work of the calling thread.
struct Slice {
  static constexpr int kIdle = 1 << 30;  // beyond the end of every loop over groups

  std::int64_t image;
  int head, part;     // head, slice of the head
  int channel;        // in [0, C)
  int group, groups;  // group == kIdle for idle threads
  int index;          // channel within the slice
  int width, count;   // row length of the planes, channels of the slice

  __device__ Slice(const DtnSizes& sizes, const Slicing& slicing, const Range& range) {
    std::int64_t i = range.first + blockIdx.x;
    part = static_cast<int>(i % slicing.parts);
    i /= slicing.parts;
    head = range.first_head + static_cast<int>(i % range.heads);
    image = i / range.heads;
    width = slicing.width;
    count = std::min(width, sizes.head_dim - part * width);
    const int thread = static_cast<int>(threadIdx.x);
    groups = kThreads / width;
    group = thread / width;
    index = thread % width;
    if (group >= groups || index >= count) {
      group = kIdle;
      index = 0;
    }
    channel = head * sizes.head_dim + part * width + index;
  }

  // Calls f(first output, line) for the group's share of the blocks of outputs of all lines.
  // Consecutive groups take blocks of the same line, because these read the same inputs.
  template <class F>
  __device__ __forceinline__ void for_each_block(int outputs, int lines, F&& f) const {
    const int blocks = output_blocks(outputs);
    for (int i = group; i < blocks * lines; i += groups) f(i % blocks * kOutputs, i / blocks);
  }
};

// Computes outputs o, ..., o + 7 of a pass along one line, from the inputs in `reads`:
//    out1[o] = sum_j matrix[j, o] in1[j]
// out2 likewise from in2, or from in1^2 for kSquare. `matrix` points to column o of row 0. The
// inputs are `step` elements apart.
template <bool kSquare>
__device__ __forceinline__ void pass(const float* matrix, int stride, const DtnSpan& reads,
                                     const float* in1, const float* in2, int step,
                                     float (&out1)[kOutputs], float (&out2)[kOutputs]) {
#pragma unroll
  for (int k = 0; k < kOutputs; ++k) out1[k] = out2[k] = 0;
  matrix += reads.begin * stride;
  in1 += reads.begin * step;
  if constexpr (!kSquare) in2 += reads.begin * step;
#pragma unroll 2
  for (int j = reads.begin; j < reads.end; ++j) {
    float p[kOutputs];
    const float4 low = __ldg(reinterpret_cast<const float4*>(matrix));
    const float4 high = __ldg(reinterpret_cast<const float4*>(matrix) + 1);
    p[0] = low.x, p[1] = low.y, p[2] = low.z, p[3] = low.w;
    p[4] = high.x, p[5] = high.y, p[6] = high.z, p[7] = high.w;
    const float a = *in1, b = kSquare ? a * a : *in2;
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      out1[k] += p[k] * a;
      out2[k] += p[k] * b;
    }
    matrix += stride;
    in1 += step;
    if constexpr (!kSquare) in2 += step;
  }
}

// Computes the pass along the rows of the grid: z1 = Px x, z2 = Px x^2.
__device__ __forceinline__ void row_pass(const DtnSizes& sizes, const Slice& s, const DtnAxis& axis,
                                         const AxisReads& reads, const float* matrix,
                                         const float* x, float* z1, float* z2) {
  s.for_each_block(axis.n, sizes.grid_h, [&](int first, int row) {
    const int start = row * sizes.grid_w * s.width + s.index;
    float out1[kOutputs], out2[kOutputs];
    pass<true>(matrix + first, axis.stride, reads.forth[first / kOutputs], x + start, nullptr,
               s.width, out1, out2);
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      if (first + k >= axis.n) break;
      z1[start + (first + k) * s.width] = out1[k];
      z2[start + (first + k) * s.width] = out2[k];
    }
  });
}

// Sums `mine` over the groups, for the thread's channel: call deposit() before a barrier and
// total() after it. `sums` is shared memory for kThreads values.
__device__ __forceinline__ void deposit(const Slice& s, float mine, float* sums) {
  if (s.group < s.groups) sums[s.group * s.width + s.index] = mine;
}
__device__ __forceinline__ float total(const Slice& s, const float* sums) {
  float sum = 0;
  for (int g = 0; g < s.groups; ++g) sum += sums[g * s.width + s.index];
  return sum;
}

// The planes of a block, [planes, T, width].
template <bool kShared>
__device__ __forceinline__ float* planes_of_block(const Slicing& slicing, int planes, float* shared,
                                                  float* scratch) {
  if constexpr (kShared) return shared;
  return scratch + std::int64_t{blockIdx.x} * planes * slicing.plane;
}

// Calls f(range, blocks) for each launch. All launches together process the slices of some heads.
// If the planes are in scratch memory, there are several launches to limit its size. The limit
// depends on the shape alone.
template <class F>
void for_each_launch(const DtnSizes& sizes, const Slicing& slicing, std::int64_t per_launch,
                     int first_head, int heads, F&& f) {
  const std::int64_t slices = sizes.batch * heads * slicing.parts;
  for (std::int64_t first = 0; first < slices; first += per_launch) {
    f(Range{first, first_head, heads}, std::min(per_launch, slices - first));
  }
}

// Scratch memory for planes that do not fit in shared memory, for `slices` slices at a time. That
// is about the number that a large device processes at once.
struct PlaneScratch {
  std::int64_t slices;
  DeviceScratch<float> memory;

  PlaneScratch(CudaQueue& queue, const DtnSizes& sizes, const Slicing& slicing, int planes)
      : slices(sizes.batch * sizes.heads * slicing.parts), memory(nullptr) {
    if (slicing.in_shared) return;
    constexpr std::int64_t kSlices = 256;
    slices = std::min(slices, kSlices);
    memory = queue.scratch<float>(slices * planes * slicing.plane);
  }
};

// Calls f(first head, number of heads) for waves of heads whose position matrices, `kinds` of each,
// fit the memory budget together. Only long sequences need several waves.
template <class F>
void for_each_wave_of_heads(const DtnSizes& sizes, int kinds, F&& f) {
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  auto bytes = [&](std::int64_t n) { return 4 * kinds * n * position_stride(static_cast<int>(n)); };
  const int wave = static_cast<int>(std::clamp<std::int64_t>(
      kBytes / (bytes(sizes.grid_w) + bytes(sizes.grid_h)), 1, sizes.heads));
  for (int head = 0; head < sizes.heads; head += wave) {
    f(head, std::min(wave, sizes.heads - head));
  }
}

}  // namespace dtn::plain
