// Attention on tensor cores over sequences. Samples may be padded, queries may see only some keys,
// and weights may be dropped. Both sides are cut into tiles of 64 tokens. A block of four warps
// owns the rows of one tile, 16 rows per warp. The tiles that it sees, or that see it, stream by as
// in attention_tensor.cuh. The contents of padding tokens are never read; zeros replace them.
#pragma once

#include "kernels/attention/attention_tensor.cuh"
#include "kernels/pointwise/drop_threshold.h"

namespace dtn::attention {

inline constexpr int kTileWarps = 4, kTileThreads = kTileWarps * cuda::kWarpSize;
static_assert(kTileWarps * 16 == kTileRows);

// The arguments of a call, as a kernel receives them.
struct TileProblem {
  HeadShape shape;              // shape.blocks: tiles of 64 tokens
  const std::int64_t* lengths;  // [B]; null: all tokens are valid
  BlockTable table;
  int block_tiles;  // tiles per block of tokens

  __device__ __forceinline__ int count(int image) const {
    return lengths ? static_cast<int>(lengths[image]) : shape.tokens;
  }
  // The tile of a thread block. The first and the last block of tokens have the most work, so they
  // come first.
  __device__ __forceinline__ int tile_of(int index) const {
    const int before_last = (table.blocks - 1) * block_tiles;
    if (!table.seen || before_last == 0 || index < block_tiles) return index;
    const int last = shape.blocks - before_last;  // tiles of the last block
    return index < block_tiles + last ? before_last + index - block_tiles : index - last;
  }
};

// The rows of a warp.
struct TileWarp {
  BlockHead head;
  int tile, count;   // of the block; valid tokens
  int index, first;  // of the warp; its first row
  int tiles;         // valid ones of the sample; 0 if the block's own tile has no valid token

  __device__ __forceinline__ explicit TileWarp(const TileProblem& p) : head(block_head(p.shape)) {
    tile = p.tile_of(head.block);
    count = p.count(head.image);
    index = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
    first = tile * kTileRows + 16 * index;
    tiles = tile * kTileRows < count ? (count + kTileRows - 1) / kTileRows : 0;
  }
  // The shape of arrays that end after the valid tokens.
  __device__ __forceinline__ HeadShape counted(const TileProblem& p) const {
    HeadShape shape = p.shape;
    shape.tokens = count;
    return shape;
  }
};

// Iterates over the tiles of keys that a tile of queries sees. next() returns -1 after the last
// one.
class KeyTiles {
 public:
  __device__ __forceinline__ KeyTiles(const TileProblem& p, const TileWarp& warp)
      : row_(p.table.seen_by(warp.head.head, p.table.seen ? warp.tile / p.block_tiles : 0)),
        block_tiles_(p.block_tiles),
        width_(p.table.width),
        tiles_(warp.tiles) {}

  __device__ __forceinline__ int next() {
    if (!row_) return at_ < tiles_ ? at_++ : -1;
    while (at_ < width_ && row_[at_] >= 0) {
      const int tile = static_cast<int>(row_[at_]) * block_tiles_ + in_block_;
      if (++in_block_ == block_tiles_) in_block_ = 0, ++at_;
      if (tile < tiles_) return tile;
    }
    return -1;
  }

 private:
  const std::int64_t* row_;
  int block_tiles_, width_, tiles_;
  int at_ = 0, in_block_ = 0;
};

// Iterates over the tiles of queries that see a tile of keys. `sees` is shared memory with one byte
// per block of tokens. All threads fill it here; it is valid after the next barrier.
class QueryTiles {
 public:
  __device__ __forceinline__ QueryTiles(const TileProblem& p, const TileWarp& warp,
                                        unsigned char* sees)
      : sees_(p.table.seen ? sees : nullptr),
        block_tiles_(p.block_tiles),
        blocks_(p.table.blocks),
        tiles_(warp.tiles) {
    if (!p.table.seen) return;
    const int own = warp.tile / p.block_tiles;
    for (int b = static_cast<int>(threadIdx.x); b < p.table.blocks; b += kTileThreads) {
      const std::int64_t* row = p.table.seen_by(warp.head.head, b);
      bool found = !row;
      for (int i = 0; i < p.table.width && !found; ++i) found = row[i] == own;
      sees[b] = found ? 1 : 0;
    }
  }

  __device__ __forceinline__ int next() {
    if (!sees_) return at_ < tiles_ ? at_++ : -1;
    while (at_ < blocks_) {
      if (!sees_[at_]) {
        ++at_;
        continue;
      }
      const int tile = at_ * block_tiles_ + in_block_;
      if (++in_block_ == block_tiles_) in_block_ = 0, ++at_;
      if (tile < tiles_) return tile;
    }
    return -1;
  }

 private:
  const unsigned char* sees_;
  int block_tiles_, blocks_, tiles_;
  int at_ = 0, in_block_ = 0;
};

// Starts to copy the 64 rows of a tile of both arrays into slot 0 or 1 of two adjacent ring
// buffers. Rows from `count` on and columns from dim on become zeros. Each warp copies 16 rows.
template <int D>
__device__ __forceinline__ void stream_tile(cuda::AsyncCopies& copies, bfloat16* rings, int slot,
                                            StreamedPair arrays, int tile, int count,
                                            const HeadShape& shape) {
  const int thread = recomputed_thread();
  const int lane = thread % cuda::kWarpSize, row = 16 * (thread / cuda::kWarpSize);
  const int first = tile * kTileRows + row;
  for (Streamed& s : arrays.of) s.from += static_cast<std::int64_t>(first) * s.stride;
  stream_aligned_rows<D>(copies, lane, rings + (slot * kTileRows + row) * kRowStride<D>, arrays,
                         count - first, shape);
}

// The next three functions access rows at any address, in whole 16-byte pieces. row_at(row) returns
// the start of a row, for rows below `count`. The other rows are zeros, as are columns from `dim`
// on.

// Starts to copy the 64 rows of a tile into a slot of a ring buffer. Each warp copies 16 rows.
template <int D, class RowAt>
__device__ __forceinline__ void stream_gathered(cuda::AsyncCopies& copies, bfloat16* ring, int slot,
                                                int tile, int count, int dim, const RowAt& row_at) {
  constexpr int kPieces = D / 8;  // per row
  constexpr int kAtOnce = kPieces <= 2 ? 16 : kPieces <= 4 ? 8 : 4;
  const int thread = recomputed_thread();
  const int lane = thread % cuda::kWarpSize, of_warp = 16 * (thread / cuda::kWarpSize);
  const int column = lane % kPieces * 8;
#pragma unroll
  for (int next = 0; next < 16; next += kAtOnce) {
    const int in_tile = of_warp + next + lane / kPieces, row = tile * kTileRows + in_tile;
    const bool there = row < count && column < dim;
    const bfloat16* from = there ? row_at(row) + column : nullptr;
    copies.copy<16>(ring + (slot * kTileRows + in_tile) * kRowStride<D> + column, from, there);
  }
}
// Loads the A fragments of 16 rows.
template <int D, class RowAt>
__device__ __forceinline__ void load_gathered(unsigned (&a)[D / 16][4], int first, int count,
                                              int dim, const RowAt& row_at) {
  const Lane lane = this_lane();
  HeadShape shape{};
  shape.dim = dim;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane.g + 8 * half;
    const bool there = row < count;
    const bfloat16* pair = there ? row_at(row) + 2 * lane.t : nullptr;
#pragma unroll
    for (int i = 0; i < D / 8; ++i) {
      a[i / 2][half + i % 2 * 2] = there ? load_pair<D, true>(pair, 8 * i, shape) : 0u;
    }
  }
}
// Writes the rows of a warp that are below `count`, through `staging` as in stage_rows(). The warp
// must not write to `staging` again, because nothing waits for the reads of its other lanes.
template <int D, class RowAt>
__device__ __forceinline__ void store_gathered(const float (&acc)[D / 8][4],
                                               const float (&factor)[2], bfloat16* staging,
                                               int first, int count, int dim, const RowAt& row_at) {
  stage_rows<D>(acc, factor, staging);
  constexpr int kPieces = D / 8;
#pragma unroll
  for (int i = this_lane().index; i < 16 * kPieces; i += cuda::kWarpSize) {
    const int row = i / kPieces, column = i % kPieces * 8;
    if (first + row >= count || column >= dim) continue;
    *reinterpret_cast<uint4*>(row_at(first + row) + column) =
        *reinterpret_cast<const uint4*>(staging + row * kRowStride<D> + column);
  }
}

// Iterates over adjacent tiles. next() returns -1 after the last one.
struct RunOfTiles {
  int at, end;
  __device__ __forceinline__ int next() { return at < end ? at++ : -1; }
};

// Calls use(tile, slot) for each tile. `stream` must already have been called for the first tile;
// stream(tile, slot) starts to copy the next one.
template <class Tiles, class Stream, class Use>
__device__ __forceinline__ void for_tiles(cuda::AsyncCopies& copies, int first, Tiles& tiles,
                                          const Stream& stream, const Use& use) {
  int slot = 0;
#pragma unroll 1
  for (int tile = first; tile >= 0; slot ^= 1) {
    const int next = tiles.next();
    copies.wait<0>();
    __syncthreads();
    if (next >= 0) stream(next, slot ^ 1);
    use(tile, slot);
    tile = next;
  }
  __syncthreads();
}

// The 16 x 16 weights that dropout keeps, as a bit mask. Bit 4 half + 2 j + side belongs to the
// score that a lane holds for row g + 8 half and column 8 j + 2 t + side. The mask is that of
// attention_drop_group(): for each key, four queries share a group of Philox words. The lanes that
// hold these queries share the work.
template <bool kIsOn>
struct WeightDropout {
  static constexpr bool kDrops = false;
  WeightDropout() = default;
  explicit WeightDropout(const AttentionDropout&) {}
  __device__ __forceinline__ void begin(BlockHead, const HeadShape&) {}
  __device__ __forceinline__ unsigned of_queries(int, int) const { return 0; }
  __device__ __forceinline__ unsigned of_keys(int, int) const { return 0; }
};
template <>
struct WeightDropout<true> {
  static constexpr bool kDrops = true;
  AttentionDropout dropout;
  std::uint32_t threshold;
  float factor;
  PhiloxKey key{};
  std::uint64_t group = 0;  // for query 0 and key 0

  explicit WeightDropout(const AttentionDropout& d)
      : dropout(d), threshold(drop_threshold(d.p)), factor(static_cast<float>(d.kept())) {}

  __device__ __forceinline__ void begin(BlockHead head, const HeadShape& shape) {
    key = key_at_step(dropout.key, dropout.step);
    group = attention_drop_group(dropout.row(head.image), shape.heads, head.head, 0, 0);
  }

  // Rows are queries, columns are keys. A lane has four keys. It draws one of them, for itself and
  // for the three lanes with the other queries of its group.
  __device__ __forceinline__ unsigned of_queries(int first_query, int first_key) const {
    const Lane lane = this_lane();
    const int mine = lane.g % 4;
    const int column = first_key + mine / 2 * 8 + 2 * lane.t + mine % 2;
    const unsigned drawn =
        draw(first_query + lane.g, column) | draw(first_query + lane.g + 8, column) << 4;
    unsigned mask = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned other =
          __shfl_sync(cuda::kWholeWarp, drawn, lane.index + 4 * (i - mine)) >> mine;
      mask |= (other & 1) << i | (other >> 4 & 1) << (i + 4);
    }
    return mask;
  }
  // Rows are keys, columns are queries. A lane and its neighbour hold the queries of two groups.
  __device__ __forceinline__ unsigned of_keys(int first_key, int first_query) const {
    const Lane lane = this_lane();
    const int mine = lane.t % 2, query = first_query + 8 * mine + lane.t / 2 * 4;
    const unsigned drawn = draw(query, first_key + lane.g) | draw(query, first_key + lane.g + 8)
                                                                 << 4;
    const unsigned other = __shfl_xor_sync(cuda::kWholeWarp, drawn, 1);
    const unsigned of_j[2] = {(mine ? other : drawn) >> 2 * mine,
                              (mine ? drawn : other) >> 2 * mine};
    unsigned mask = 0;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      mask |= (of_j[j] & 3) << 2 * j | (of_j[j] >> 4 & 3) << (2 * j + 4);
    }
    return mask;
  }

  // The dropout factor of a weight: 0 if it is dropped.
  __device__ __forceinline__ float of(unsigned mask, int j, int half, int side) const {
    return mask >> (4 * half + 2 * j + side) & 1 ? factor : 0.0f;
  }

 private:
  // Bit i is 1 if query i of this query's group of four keeps its weight.
  __device__ __forceinline__ unsigned draw(int query, int column) const {
    const std::uint64_t at =
        static_cast<std::uint64_t>(query / 4) << 20 | static_cast<unsigned>(column);
    const Philox4 words = philox_group(key, group | at);
    unsigned kept = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // no sum of shifts: GCC 12 gets it wrong with shift checks
      if (words.v[i] >> 8 >= threshold) kept |= 1u << i;
    }
    return kept;
  }
};

// Calls f(integral constant D, WeightDropout) for the heads that has_tiles() accepts.
template <class F>
void for_tile_heads(const AttentionDropout& dropout, std::int64_t head_dim, F&& f) {
  const auto with = [&](auto columns) {
    dropout ? f(columns, WeightDropout<true>(dropout)) : f(columns, WeightDropout<false>(dropout));
  };
  if (head_dim <= 16) return with(std::integral_constant<int, 16>{});
  if (head_dim <= 32) return with(std::integral_constant<int, 32>{});
  with(std::integral_constant<int, 64>{});
}

// The arguments of a call, with the pattern of block attention or no pattern.
template <class Args>
TileProblem tile_problem(const Args& args, const BlockTable& table) {
  TileProblem p{head_shape(args), args.lengths, table, 1};
  p.shape.blocks = static_cast<int>((args.tokens + kTileRows - 1) / kTileRows);
  if (table.block > 0) {
    p.block_tiles = table.block / kTileRows;
  } else {
    p.table.blocks = 1;
  }
  return p;
}

}  // namespace dtn::attention
