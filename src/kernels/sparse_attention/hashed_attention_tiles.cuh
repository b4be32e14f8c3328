// Attention by hashing on tensor cores, one round. In the sorted order a query sees its own chunk
// and the one before, so that a tile of 64 sorted tokens sees a run of tiles, but for the first
// chunk, which sees the last one, too. Everything is computed in that order; rows are gathered from
// where the tokens lie, and results go back there. See attention_tiles.cuh, of which the same is true
// else: zeros take the place of what does not count.
#pragma once

#include "kernels/attention/attention_tiles.cuh"

namespace dtn::attention {

// A call, as a kernel gets it.
struct SortedProblem {
  HeadShape shape;              // T, H, D; blocks: tiles of 64 positions; rows are out_stride apart
  const std::int64_t* lengths;  // [B]; null: all tokens count
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

// The rows of a warp, which are places in the sorted order.
struct SortedWarp {
  BlockHead head;
  const std::int64_t* order;  // of the head
  int tile, count;            // of the block; tokens that count
  int index, first;           // of the warp, and its first row

  __device__ __forceinline__ explicit SortedWarp(const SortedProblem& p)
      : head(block_head(p.shape)) {
    order = p.order + p.statistics(head);
    tile = head.block;
    count = p.count(head.image);
    index = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
    first = tile * kTileRows + 16 * index;
  }
  // Where the token of a row lies. The tokens that do not count, for which there is no order, are
  // the last ones.
  __device__ __forceinline__ int token(int row) const {
    return row < count ? static_cast<int>(order[row]) : row;
  }
};

// Two runs of tiles, one after the other; -1 behind the last.
class SortedTiles {
 public:
  // Those with keys that the rows of a tile see.
  static __device__ __forceinline__ SortedTiles of_keys(const SortedProblem& p,
                                                        const SortedWarp& w) {
    const Chunks own(p, w);
    const int first = own.first > 0 ? (own.first - 1) * p.chunk : 0;
    SortedTiles tiles(first, (own.last + 1) * p.chunk, w);
    if (own.first == 0) tiles.add_behind((p.buckets - 1) * p.chunk, w.count);
    return tiles;
  }
  // Those with queries that see a row of a tile.
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
    if (w.tile * kTileRows >= w.count) end_ = at_;  // nothing counts here
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

// Starts to bring the 64 rows of a tile of both arrays into place `slot` of two rings, as
// stream_tile() does, from where their tokens lie. Both arrays begin at the head's columns of token 0.
template <int D>
__device__ __forceinline__ void stream_sorted(cuda::AsyncCopies& copies, bfloat16* rings, int slot,
                                              const StreamedPair& arrays, int tile,
                                              const SortedWarp& warp, const HeadShape& shape) {
  constexpr int kPieces = D / 8;  // of a row, 16 bytes each
  constexpr int kAtOnce = kPieces <= 2 ? 16 : kPieces <= 4 ? 8 : 4;
  const int thread = recomputed_thread();
  const int lane = thread % cuda::kWarpSize, of_warp = 16 * (thread / cuda::kWarpSize);
  const int column = lane % kPieces * 8;
#pragma unroll
  for (int next = 0; next < 16; next += kAtOnce) {
    const int row = of_warp + next + lane / kPieces, sorted = tile * kTileRows + row;
    const int token = warp.token(sorted);
    const bool there = sorted < warp.count && column < shape.dim;
    bfloat16* to = rings + (slot * kTileRows + row) * kRowStride<D> + column;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Streamed& s = arrays.of[i];
      copies.copy<16>(to + i * kRingSize<D>,
                      s.from + static_cast<std::int64_t>(token) * s.stride + column, there);
    }
  }
}

// A fragments of the warp's rows, `from` at the head's columns of token 0.
template <int D>
__device__ __forceinline__ void load_sorted_rows(unsigned (&a)[D / 16][4], const bfloat16* from,
                                                 std::int64_t stride, const SortedWarp& warp,
                                                 const HeadShape& shape) {
  const Lane lane = this_lane();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp.first + lane.g + 8 * half;
    const bfloat16* pair = from + warp.token(row) * stride + 2 * lane.t;
#pragma unroll
    for (int i = 0; i < D / 8; ++i) {
      a[i / 2][half + i % 2 * 2] = row < warp.count ? load_pair<D, true>(pair, 8 * i, shape) : 0u;
    }
  }
}

// Writes the warp's rows back to where their tokens lie, those that do not count, too: row g of a
// fragment times factor[0] and row g + 8 times factor[1]; `staging` is 16 rows of the warp's own.
template <int D>
__device__ __forceinline__ void store_sorted_rows(const float (&acc)[D / 8][4],
                                                  const float (&factor)[2], bfloat16* staging,
                                                  bfloat16* to, std::int64_t stride,
                                                  const SortedWarp& warp, const HeadShape& shape) {
  const Lane lane = this_lane();
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<unsigned*>(staging + (lane.g + 8 * half) * kRowStride<D> + n * 8 +
                                   2 * lane.t) =
          cuda::pack_bfloat16(acc[n][2 * half] * factor[half], acc[n][2 * half + 1] * factor[half]);
    }
  }
  __syncwarp();
  constexpr int kPieces = D / 8;
#pragma unroll
  for (int i = lane.index; i < 16 * kPieces; i += cuda::kWarpSize) {
    const int row = i / kPieces, column = i % kPieces * 8;
    if (warp.first + row >= shape.tokens || column >= shape.dim) continue;
    *reinterpret_cast<uint4*>(to + warp.token(warp.first + row) * stride + column) =
        *reinterpret_cast<const uint4*>(staging + row * kRowStride<D> + column);
  }
  __syncwarp();
}

// The chunks of a lane's rows g and g + 8, and those before; of rows that do not count no chunk's.
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

// What is known of a streamed key. Of one that does not count, the chunk is -1.
struct alignas(8) KeyTerm {
  float factor;  // of its scores
  int chunk;
};
// Of a streamed query: its chunk, and the one before; -1 likewise.
struct alignas(8) QueryChunks {
  int own, before;
};

}  // namespace dtn::attention
