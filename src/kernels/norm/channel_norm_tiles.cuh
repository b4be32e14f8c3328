// Layout of the work of channel_norm.h's CUDA kernels. A thread block processes a tile of columns
// in a chunk of rows. `lanes` adjacent threads each read 16 bytes of a row, or one value if the
// rows are not aligned. The row lanes take the rows in turn. A tile is at least a cache line wide,
// or the whole row, and holds whole groups unless a group is too wide.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/norm/channel_norm.h"

namespace dtn {

constexpr int kChannelThreads = 256;
constexpr int kChannelWarps = kChannelThreads / cuda::kWarpSize;

struct ChannelTiles {
  std::int64_t sets, rows, channels, groups, group_size;
  std::int64_t chunk_rows;
  unsigned chunks, tiles;
  int lanes, row_lanes;
  int tile_groups;  // 0: tiles do not end at group boundaries

  std::int64_t blocks() const { return sets * chunks * tiles; }
};

// Position of a thread, for vectors of n columns.
template <int n>
struct TileThread {
  std::int64_t set, chunk, first_column;  // of the tile
  std::int64_t column;                    // of the thread
  std::int64_t begin, end;                // rows of the chunk
  int lane, row_lane;
  bool live;

  __device__ __forceinline__ explicit TileThread(const ChannelTiles& t) {
    const unsigned of_set = blockIdx.x / t.tiles;
    set = of_set / t.chunks;
    chunk = of_set % t.chunks;
    lane = static_cast<int>(threadIdx.x) % t.lanes;
    row_lane = static_cast<int>(threadIdx.x) / t.lanes;
    first_column = static_cast<std::int64_t>(blockIdx.x % t.tiles) * t.lanes * n;
    column = first_column + lane * n;
    begin = chunk * t.chunk_rows;
    end = begin + t.chunk_rows < t.rows ? begin + t.chunk_rows : t.rows;
    live = row_lane < t.row_lanes && column < t.channels;
  }
  // Returns the offset of value (row, column) in a tensor [S, R, C].
  __device__ __forceinline__ std::int64_t offset(const ChannelTiles& t, std::int64_t row) const {
    return (set * t.rows + row) * t.channels + column;
  }
};

// Calls body(row, count) for the rows of a thread: `count` rows from `row` on, t.row_lanes apart.
// count is kTogether while that many rows are left, so that their loads overlap, and then 1.
template <int kTogether, int n, class Body>
__device__ __forceinline__ void for_tile_rows(const ChannelTiles& t, const TileThread<n>& at,
                                              const Body& body) {
  if (!at.live) return;
  std::int64_t r = at.begin + at.row_lane;
  for (; r + (kTogether - 1) * t.row_lanes < at.end; r += kTogether * t.row_lanes) {
    body(r, std::integral_constant<int, kTogether>{});
  }
  for (; r < at.end; r += t.row_lanes) body(r, std::integral_constant<int, 1>{});
}

// Adds two values per column over the row lanes. Calls finish(j, first, second) with the sums of
// column first_column + j. `shared`: 2 kChannelThreads n floats.
template <int n, class Finish>
__device__ __forceinline__ void add_row_lanes(const ChannelTiles& t, const TileThread<n>& at,
                                              const float (&first)[n], const float (&second)[n],
                                              float* shared, const Finish& finish) {
  const int width = t.lanes * n;
  float* seconds = shared + kChannelThreads * n;
  if (at.row_lane < t.row_lanes) {
    cuda::store_values(shared + at.row_lane * width + at.lane * n, first);
    cuda::store_values(seconds + at.row_lane * width + at.lane * n, second);
  }
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < width; j += kChannelThreads) {
    if (at.first_column + j >= t.channels) break;
    float a = 0, b = 0;
#pragma unroll 4
    for (int r = 0; r < t.row_lanes; ++r) {
      a += shared[r * width + j];
      b += seconds[r * width + j];
    }
    finish(j, a, b);
  }
}

// Returns (v + eps)^-1/2, accurate to one unit in the last place.
__device__ __forceinline__ float reciprocal_root(float v, float eps) {
  const float u = v + eps, r = rsqrtf(u);
  return fmaf(0.5f * r, fmaf(-u * r, r, 1.0f), r);
}

// y = (x - mean) scale + offset
struct ChannelOutput {
  float mean, scale, offset;
};

// Returns the output of a channel, from the arguments of either direction.
template <class Arguments>
__device__ __forceinline__ ChannelOutput channel_output(const Arguments& a, std::int64_t set,
                                                        std::int64_t column) {
  const std::int64_t i = set * a.tiles.groups + column / a.tiles.group_size;
  const std::int64_t gain = set * a.parameter_stride + column;
  const float rstd = reciprocal_root(a.variance[i], a.eps);
  const float scale = a.weight ? rstd * a.weight[gain] : rstd;
  const float bias = a.bias ? a.bias[gain] : 0.0f;
  return {a.mean[i], scale, a.rest ? fmaf(-a.rest[i], scale, bias) : bias};
}

// --- on the host --------------------------------------------------------------------------------

// The fused kernel has one block per tile of a set. It needs enough blocks to fill the device, and
// few enough rows per block.
constexpr std::int64_t kFusedBlocks = 96, kFusedRows = 1024;
// Otherwise the rows are split into chunks, for about this many blocks.
constexpr std::int64_t kChunkBlocks = 1024, kMinChunkRows = 64;

// Returns the tiles for vectors of n columns.
inline ChannelTiles channel_tiles(const ChannelNormArguments& args, int n,
                                  std::size_t size_of_value) {
  const std::int64_t channels = args.channels, groups = args.groups;
  ChannelTiles t{};
  t.sets = args.sets, t.rows = args.rows, t.channels = channels, t.groups = groups;
  t.group_size = channels / groups;
  const std::int64_t line = 128 / static_cast<std::int64_t>(size_of_value);
  std::int64_t together = 1;
  while (together * t.group_size < line || together * t.group_size % n != 0) together *= 2;
  if (together > groups) together = groups;
  std::int64_t width = together * t.group_size;
  t.tile_groups = static_cast<int>(together);
  if (width > std::int64_t{kChannelThreads} * n) {
    width = line < channels ? line : channels;
    t.tile_groups = 0;
  }
  t.lanes = static_cast<int>(width / n);
  t.row_lanes = kChannelThreads / t.lanes;
  t.tiles = static_cast<unsigned>((channels + width - 1) / width);
  t.chunks = 1;
  t.chunk_rows = args.rows;
  return t;
}

// Returns true if a block takes all rows of a tile and computes the statistics of its groups.
inline bool is_fused(const ChannelTiles& t) {
  return t.tile_groups > 0 && t.rows <= kFusedRows && t.sets * t.tiles >= kFusedBlocks;
}

inline void cut_into_chunks(ChannelTiles& t) {
  const std::int64_t wanted = kChunkBlocks / (t.sets * t.tiles) + 1;
  std::int64_t rows = (t.rows + wanted - 1) / wanted;
  if (rows < kMinChunkRows) rows = kMinChunkRows;
  t.chunk_rows = rows < t.rows ? rows : t.rows;
  t.chunks = static_cast<unsigned>((t.rows + t.chunk_rows - 1) / t.chunk_rows);
}

// Calls f(n) with the width of the vectors in which rows at `places` can be read. Places may be
// null.
template <class T, class F>
void for_vector_width(std::int64_t channels, std::initializer_list<const void*> places, F&& f) {
  bool wide = true;
  for (const void* p : places) wide = wide && cuda::is_vectorizable<T>(p, channels);
  wide ? f(std::integral_constant<int, cuda::kPerVector<T>>{})
       : f(std::integral_constant<int, 1>{});
}

}  // namespace dtn
