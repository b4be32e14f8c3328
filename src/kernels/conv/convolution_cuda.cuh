// Shared parts of a convolution's products on a device: the layout of its rows, places and kernels
// in memory; see convolution.cu.
#pragma once

#include "kernels/conv/axis_taps.h"
#include "kernels/conv/convolution.h"
#include "kernels/cuda/elementwise.cuh"

namespace dtn::cuda {

// The channels of one group in maps of sources.
template <class T>
struct Sources : GridTaps {
  const T* from;          // [B, h.sources, w.sources, channels]
  std::int64_t channels;  // of the map
  std::int64_t width;     // of a group
  bool wide;              // four channels of a group, from a multiple of four on, are aligned

  DTN_HOST_DEVICE std::int64_t columns() const { return h.taps * w.taps * width; }
};

// The start of row (image, n, m) of patches: the source of its first tap, which may be outside.
struct PatchRow {
  std::int64_t image, y, x;  // image: index of the image's first source

  template <class Index, class T>
  static __device__ __forceinline__ PatchRow of(const Sources<T>& s, std::int64_t row) {
    const RowColumn line = row_and_column<Index>(row, s.w.count);
    const RowColumn image = row_and_column<Index>(line.row, s.h.count);
    return {image.row * s.h.sources * s.w.sources, s.h.first_source(image.column),
            s.w.first_source(line.column)};
  }
};

// Column k of the patches: a tap and a channel of the group.
struct PatchColumn {
  int u, v, c;

  template <class T>
  static __device__ __forceinline__ PatchColumn of(const Sources<T>& s, std::int64_t k) {
    const auto column = static_cast<unsigned>(k), width = static_cast<unsigned>(s.width);
    const unsigned tap = column / width, taps = static_cast<unsigned>(s.w.taps);
    return {static_cast<int>(tap / taps), static_cast<int>(tap % taps),
            static_cast<int>(column % width)};
  }
};

// Loads n values of `group` in a row of patches from a column on, all of one tap; zeros outside.
template <int n, class T>
__device__ __forceinline__ void load_patch(const Sources<T>& s, std::int64_t group,
                                           const PatchRow& row, const PatchColumn& column,
                                           float (&to)[n]) {
  const std::int64_t y = row.y + column.u, x = row.x + column.v;
  if (y < 0 || y >= s.h.sources || x < 0 || x >= s.w.sources) {
#pragma unroll
    for (int k = 0; k < n; ++k) to[k] = 0;
    return;
  }
  load_values(s.from + (row.image + y * s.w.sources + x) * s.channels + group * s.width + column.c,
              to);
}

// Loads four columns of a row of patches from k on; zeros from `columns` on. `column` is that of k.
template <class T>
__device__ __forceinline__ void load_four(const Sources<T>& s, std::int64_t group,
                                          const PatchRow& row, const PatchColumn& column,
                                          std::int64_t k, std::int64_t columns, float (&to)[4]) {
  if (s.wide && k < columns) return load_patch(s, group, row, column, to);
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    float one[1] = {0};
    if (k + q < columns) load_patch(s, group, row, PatchColumn::of(s, k + q), one);
    to[q] = one[0];
  }
}

// Loads four values of a row of `columns` from column k on; zeros past its end.
template <class T>
__device__ __forceinline__ void load_row(const T* row, std::int64_t k, std::int64_t columns,
                                         bool wide, float (&to)[4]) {
  if (wide && k + 4 <= columns) return load_values(row + k, to);
#pragma unroll
  for (int q = 0; q < 4; ++q) to[q] = k + q < columns ? to_float(row[k + q]) : 0.0f;
}

// --- products -----------------------------------------------------------------------------------

// The product of the patches of `sources` and a kernel, written to places of a map.
template <class T>
struct Correlation {
  Sources<T> sources;
  std::int64_t rows;           // patches: places of all images
  const T* weight;             // [groups, columns, out]
  const float* bias;           // [groups out] or null
  T* to;                       // [B, height, width, channels]
  std::int64_t height, width;  // of the map that is written
  std::int64_t channels, out;  // of the map, of a group

  // Returns the address in the map of row r of group `group`.
  template <class Index>
  __device__ __forceinline__ T* target(std::int64_t r, std::int64_t group) const {
    const RowColumn line = row_and_column<Index>(r, sources.w.count);
    const RowColumn image = row_and_column<Index>(line.row, sources.h.count);
    const std::int64_t place =
        (image.row * height + sources.h.place(image.column)) * width + sources.w.place(line.column);
    return to + place * channels + group * out;
  }
};

// The gradient of the kernels of all groups, patches^T dy, each [columns, out], over shares of the
// positions.
template <class T>
struct WeightGradient {
  Sources<T> sources;
  const T* dy;                 // [positions, channels]
  std::int64_t channels, out;  // of dy, of a group
  std::int64_t groups, positions, share;
  float* partials;  // [shares, groups, columns, out]
  bool wide;        // four channels of dy, from a multiple of four on, are aligned
};

// Size of a tile of the result, and depth of its factors in shared memory.
struct ProductTileShape {
  int rows, columns, depth;
};
inline constexpr ProductTileShape kPlainTile{128, 64, 16};
inline constexpr ProductTileShape kTensorTile{128, 64, 32}, kWideTensorTile{128, 128, 32};

// Returns the wide tile, which has more products per address, if it wastes no more on `out`
// outputs; else the narrow one.
inline const ProductTileShape& tensor_tile(std::int64_t out) {
  return (out + 63) / 64 % 2 == 0 ? kWideTensorTile : kTensorTile;
}

// On CUDA cores, in float32.
template <class T>
void correlate_plain(CudaQueue&, const char* name, const Correlation<T>&, std::int64_t groups);
template <class T>
void weight_gradient_plain(CudaQueue&, const WeightGradient<T>&);

// On tensor cores. In all arrays that are read and written, eight channels of a group, from a
// multiple of eight on, must be aligned.
void correlate_tensor(CudaQueue&, const char* name, const Correlation<bfloat16>&,
                      std::int64_t groups);
void weight_gradient_tensor(CudaQueue&, const WeightGradient<bfloat16>&);

}  // namespace dtn::cuda
