// Hashed attention on tensor cores, for one round. In the sorted order a query sees its own chunk
// and the one before. So a tile of 64 sorted tokens sees a run of adjacent tiles; only the first
// chunk also sees the last one. All work is done in the sorted order: rows are gathered from the
// places of their tokens, and results are written back there. The rest is as in
// attention_tiles.cuh: zeros replace invalid tokens.
#pragma once

#include "kernels/attention/attention_tiles.cuh"

namespace dtn::attention {

// The arguments of a call, as a kernel receives them.
struct SortedProblem {
  HeadShape shape;              // T, H, D; blocks: tiles of 64 positions; rows are out_stride apart
  const std::int64_t* lengths;  // [B]; null: all tokens are valid
  const std::int64_t* order;    // [B, H, N]
  const float* inverse_norm;    // [B, H, N]: 1 / |k|, or 0
  int positions, chunk, buckets;

  __device__ __forceinline__ int count(int image) const {
    return lengths ? static_cast<int>(lengths[image]) : shape.tokens;
  }
  __device__ __forceinline__ std::int64_t statistics(BlockHead head) const {
    return (static_cast<std::int64_t>(head.image) * shape.heads + head.head) * positions;
  }
  __device__ __forceinline__ int chunk_before(int c) const { return c > 0 ? c - 1 : buckets - 1; }
};

// The rows of a warp: positions in the sorted order.
struct SortedWarp {
  BlockHead head;
  const std::int64_t* order;  // of the head
  int tile, count;            // of the block; valid tokens
  int index, first;           // of the warp; its first row

  __device__ __forceinline__ explicit SortedWarp(const SortedProblem& p)
      : head(block_head(p.shape)) {
    order = p.order + p.statistics(head);
    tile = head.block;
    count = p.count(head.image);
    index = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
    first = tile * kTileRows + 16 * index;
  }
  // The token of a row. Invalid tokens come last; they have no order.
  __device__ __forceinline__ int token(int row) const {
    return row < count ? static_cast<int>(order[row]) : row;
  }
};

// Iterates over two runs of tiles, one after the other. next() returns -1 after the last tile.
class SortedTiles {
 public:
  // Tiles with keys that the rows of a tile see.
  static __device__ __forceinline__ SortedTiles of_keys(const SortedProblem& p,
                                                        const SortedWarp& w) {
    const Chunks own(p, w);
    const int first = own.first > 0 ? (own.first - 1) * p.chunk : 0;
    SortedTiles tiles(first, (own.last + 1) * p.chunk, w);
    if (own.first == 0) tiles.add_behind((p.buckets - 1) * p.chunk, w.count);
    return tiles;
  }
  // Tiles with queries that see a row of a tile.
  static __device__ __forceinline__ SortedTiles of_queries(const SortedProblem& p,
                                                           const SortedWarp& w) {
    const Chunks own(p, w);
    SortedTiles tiles(own.first * p.chunk, (own.last + 2) * p.chunk, w);
    if (own.last == p.buckets - 1) tiles.add_ahead(p.chunk, w.count);
    return tiles;
  }

  __device__ __forceinline__ int next() {
    if (at_ < end_) return at_++;
    return more_ < more_end_ ? more_++ : -1;
  }

 private:
  struct Chunks {
    int first, last;  // of a tile's rows
    __device__ __forceinline__ Chunks(const SortedProblem& p, const SortedWarp& w) {
      const int row = w.tile * kTileRows;
      const int end = row + kTileRows < w.count ? row + kTileRows : w.count;
      first = row / p.chunk, last = end > row ? (end - 1) / p.chunk : 0;
    }
  };
  __device__ __forceinline__ SortedTiles(int row, int end, const SortedWarp& w)
      : at_(row / kTileRows), end_(tiles_up_to(end < w.count ? end : w.count)) {
    if (w.tile * kTileRows >= w.count) end_ = at_;  // no valid token here
  }
  static __device__ __forceinline__ int tiles_up_to(int rows) {
    return (rows + kTileRows - 1) / kTileRows;
  }
  __device__ __forceinline__ void add_behind(int row, int count) {
    if (at_ == end_ || row >= count) return;
    more_ = row / kTileRows > end_ ? row / kTileRows : end_;
    more_end_ = tiles_up_to(count);
  }
  __device__ __forceinline__ void add_ahead(int rows, int count) {
    if (at_ == end_) return;
    const int end = tiles_up_to(rows < count ? rows : count);
    more_end_ = end < at_ ? end : at_;
  }

  int at_, end_, more_ = 0, more_end_ = 0;
};

// Returns the address of a row's token in an array [B, T, H, D]. `of_head` points to token 0, at
// the head's columns.
template <class T>
struct SortedRows {
  const SortedWarp& warp;
  T* of_head;
  std::int64_t stride;

  __device__ __forceinline__ T* operator()(int row) const {
    return of_head + warp.token(row) * stride;
  }
};

// The chunks of a lane's rows g and g + 8, and the chunks before; -2 (no chunk) for invalid rows.
struct OwnChunks {
  int own[2], before[2];
  __device__ __forceinline__ OwnChunks(const SortedProblem& p, const SortedWarp& warp) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp.first + this_lane().g + 8 * half;
      const bool counts = row < warp.count;
      own[half] = counts ? row / p.chunk : -2;
      before[half] = counts ? p.chunk_before(row / p.chunk) : -2;
    }
  }
};

// Terms of a streamed key. An invalid key has chunk -1.
struct alignas(8) KeyTerm {
  float factor;  // of the key's scores
  int chunk;
};
// The chunk of a streamed query, and the one before. An invalid query has -1.
struct alignas(8) QueryChunks {
  int own, before;
};

}  // namespace dtn::attention
