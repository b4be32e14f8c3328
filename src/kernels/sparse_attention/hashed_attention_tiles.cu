// Hashed attention on tensor cores: see hashed_attention_tiles.cuh. The backward pass is one
// kernel, because it adds the gradients of a token as a query and as a key. A warp first walks over
// the keys that its rows see, then over the queries that see its rows.
#include "kernels/attention/attention_softmax.cuh"
#include "kernels/attention/attention_tensor_backward.cuh"
#include "kernels/sparse_attention/hashed_attention_tiles.cuh"
#include "kernels/sparse_attention/hashed_attention_tiles.h"

namespace dtn::attention {
namespace {

// Writes the terms of tile `tile` to slot `slot` of a ring buffer. The whole block takes part.
__device__ __forceinline__ void put_key_terms(KeyTerm* ring, const SortedProblem& p,
                                              const SortedWarp& warp, int tile, int slot) {
  const float* inverse_norm = p.inverse_norm + p.statistics(warp.head);
  for (int i = recomputed_thread(); i < kTileRows; i += kTileThreads) {
    const int row = tile * kTileRows + i;
    const bool counts = row < warp.count;
    ring[slot * kTileRows + i] = {counts ? inverse_norm[warp.token(row)] * kLog2E : 0.0f,
                                  counts ? row / p.chunk : -1};
  }
}

// Terms of the keys of 16 streamed rows, in the layout of a fragment of scores.
struct StreamedKeys {
  KeyTerm of[2][2];  // rows 8 j + 2 t + side
  __device__ __forceinline__ StreamedKeys(const KeyTerm* ring, int row) {
    const KeyTerm* from = ring + row + 2 * this_lane().t;
#pragma unroll
    for (int i = 0; i < 4; ++i) of[i / 2][i % 2] = from[i / 2 * 8 + i % 2];
  }
};

// Mask of a query: it sees only the keys of two chunks, and not itself.
struct Mask {
  OwnChunks chunks;
  int first;  // first row of the warp

  // Returns true if the query in row g + 8 half sees the key at sorted position `key`.
  __device__ __forceinline__ bool operator()(int half, int chunk, int key) const {
    return (chunk == chunks.own[half] || chunk == chunks.before[half]) &&
           key != first + this_lane().g + 8 * half;
  }
};

// The terms of the softmax's scores, for the keys of one tile; see RowBias.
struct SortedTerms {
  static constexpr bool kAny = true;
  Mask mask;
  const KeyTerm* ring;
  int to_sorted;  // sorted position minus ring position

  __device__ __forceinline__ void add(float (&s)[1][2][4], int row, float) const {
    const StreamedKeys keys(ring, row);
    for_scores(0, [&](ScoreIndex i) {
      const KeyTerm& key = keys.of[i.j][i.side];
      const int at = to_sorted + row + 8 * i.j + 2 * this_lane().t + i.side;
      i.of(s) = mask(i.half, key.chunk, at) ? i.of(s) * key.factor : -INFINITY;
    });
  }
};

struct SortedForward {
  const bfloat16 *qk, *v;  // [B, T, H, D]
  bfloat16* out;
  float* lse;  // [B, H, N], by position
};

template <int D>
__global__ void __launch_bounds__(kTileThreads, 4)
    hashed_tiles_forward_kernel(SortedProblem problem, SortedForward arrays) {
  DTN_SHARED(bfloat16, shared);  // [keys, values][kRingRows, kRowStride], terms of keys
  auto* terms = reinterpret_cast<KeyTerm*>(shared + 2 * kRingSize<D>);
  const HeadShape& shape = problem.shape;
  const SortedWarp warp(problem);
  const std::int64_t head = warp.head.out(shape), stride = shape.out_stride;
  const SortedRows<const bfloat16> qk{warp, arrays.qk + head, stride};
  const SortedRows<const bfloat16> values{warp, arrays.v + head, stride};

  cuda::AsyncCopies copies;
  const auto stream = [&](int tile, int slot) {
    stream_gathered<D>(copies, shared, slot, tile, warp.count, shape.dim, qk);
    stream_gathered<D>(copies, shared + kRingSize<D>, slot, tile, warp.count, shape.dim, values);
    copies.commit();
    put_key_terms(terms, problem, warp, tile, slot);
  };
  SortedTiles tiles = SortedTiles::of_keys(problem, warp);
  const int first_tile = tiles.next();
  if (first_tile >= 0) stream(first_tile, 0);
  unsigned q[1][D / 16][4];
  load_gathered<D>(q[0], warp.first, warp.count, shape.dim, qk);
  const Mask mask{OwnChunks(problem, warp), warp.first};
  OnlineSoftmax<D, 1, SortedTerms> softmax;
  for_tiles(copies, first_tile, tiles, stream, [&](int tile, int slot) {
    if (warp.first >= warp.count) return;
    const SortedTerms of_tile{mask, terms, (tile - slot) * kTileRows};
#pragma unroll 1
    for (int row = 0; row < kTileRows && tile * kTileRows + row < warp.count; row += 32) {
      const bfloat16* k = shared + (slot * kTileRows + row) * kRowStride<D>;
      softmax.template step<2>(q, k, k + kRingSize<D>, 32, 1, of_tile, slot * kTileRows + row,
                               AllWeights());
    }
  });

  const Lane lane = this_lane();
  float inverse[2];
  bool alone[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = sum_of_quad(softmax.sum[0][half]);
    const int row = warp.first + lane.g + 8 * half;
    const bool counts = row < warp.count;
    alone[half] = counts && sum == 0;
    inverse[half] = counts ? 1 / sum : 0.0f;
    if (lane.t == 0 && row < problem.positions) {
      arrays.lse[problem.statistics(warp.head) + warp.token(row)] =
          !counts       ? 0.0f
          : alone[half] ? INFINITY
                        : softmax.shift[0][half] * kLn2 + logf(sum);
    }
  }
  if (__any_sync(cuda::kWholeWarp, alone[0] || alone[1])) {  // the output is the token's own value
    unsigned v[D / 16][4];
    load_gathered<D>(v, warp.first, warp.count, shape.dim, values);
#pragma unroll
    for (int i = 0; i < D / 8; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned pair = v[i / 2][half + i % 2 * 2];
        if (!alone[half]) continue;
        softmax.acc[0][i][2 * half] = cuda::low_bfloat16(pair);
        softmax.acc[0][i][2 * half + 1] = cuda::high_bfloat16(pair);
        inverse[half] = 1;
      }
    }
  }
  store_gathered<D>(softmax.acc[0], inverse, shared + warp.index * 16 * kRowStride<D>, warp.first,
                    shape.tokens, shape.dim, SortedRows<bfloat16>{warp, arrays.out + head, stride});
}

struct SortedBackward {
  const bfloat16 *qk, *v, *dout;
  const float *lse, *delta;  // [B, H, N], by position
  bfloat16 *dqk, *dv;
};

template <int D>
constexpr std::size_t kBackwardBytes =
    2 * kRingSize<D> * sizeof(bfloat16) + kRingRows*(sizeof(RowStatistics) + sizeof(QueryChunks));

// The gradients of a warp's rows as queries.
template <int D>
struct SortedQueries {
  float dq[1][D / 8][4] = {};

  template <class Stream>
  __device__ __forceinline__ void walk(const SortedProblem& problem, const SortedBackward& arrays,
                                       const SortedWarp& warp, const unsigned (&q)[1][D / 16][4],
                                       const unsigned (&dout)[1][D / 16][4], bfloat16* shared,
                                       const KeyTerm* terms, cuda::AsyncCopies& copies,
                                       const Stream& stream) {
    OwnStatistics<1> statistics;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp.first + this_lane().g + 8 * half;
      const std::int64_t at = problem.statistics(warp.head) + warp.token(row);
      const bool counts = row < warp.count;
      statistics.rows[0][half] = {counts ? arrays.lse[at] * kLog2E : 0.0f,
                                  counts ? arrays.delta[at] : 0.0f};
    }
    const Mask mask{OwnChunks(problem, warp), warp.first};
    SortedTiles tiles = SortedTiles::of_keys(problem, warp);
    const int first_tile = tiles.next();
    if (first_tile >= 0) stream(first_tile, 0);
    for_tiles(copies, first_tile, tiles, stream, [&](int tile, int slot) {
      if (warp.first >= warp.count) return;
#pragma unroll 1
      for (int row = 0; row < kTileRows && tile * kTileRows + row < warp.count; row += 16) {
        const bfloat16* k = shared + (slot * kTileRows + row) * kRowStride<D>;
        float s[1][2][4] = {}, dp[1][2][4];
        begin_at_minus_delta(dp, statistics);
        scores<D, 1>(dp, dout, k + kRingSize<D>);
        scores<D, 1>(s, q, k);
        const StreamedKeys keys(terms, slot * kTileRows + row);
        for_scores(0, [&](ScoreIndex i) {
          const KeyTerm& key = keys.of[i.j][i.side];
          const int at = tile * kTileRows + row + 8 * i.j + 2 * this_lane().t + i.side;
          const float p = cuda::exp2_approximate(fmaf(i.of(s), key.factor, -statistics[i].lse));
          // The derivative of a score with respect to q is the key times its factor, which includes
          // log2(e) here.
          i.of(dp) = mask(i.half, key.chunk, at) ? p * i.of(dp) * key.factor : 0.0f;
        });
        unsigned ds[1][4];
        pack_operand(ds[0], dp[0]);
        accumulate<D, 1>(dq, ds, k);
      }
    });
  }
};

// The gradients of a warp's rows as keys. dk is the gradient of the normalized key.
template <int D>
struct SortedKeys {
  float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};

  template <class Stream>
  __device__ __forceinline__ void walk(const SortedProblem& problem, const SortedWarp& warp,
                                       const float (&factor)[2], const unsigned (&k)[1][D / 16][4],
                                       const unsigned (&v)[1][D / 16][4], bfloat16* shared,
                                       const RowStatistics* statistics, const QueryChunks* chunks,
                                       cuda::AsyncCopies& copies, const Stream& stream) {
    const Lane lane = this_lane();
    const OwnChunks own(problem, warp);
    SortedTiles tiles = SortedTiles::of_queries(problem, warp);
    const int first_tile = tiles.next();
    if (first_tile >= 0) stream(first_tile, 0);
    for_tiles(copies, first_tile, tiles, stream, [&](int tile, int slot) {
      if (warp.first >= warp.count) return;
#pragma unroll 1
      for (int row = 0; row < kTileRows && tile * kTileRows + row < warp.count; row += 16) {
        const bfloat16* q = shared + (slot * kTileRows + row) * kRowStride<D>;
        const bfloat16* dout = q + kRingSize<D>;
        float p[1][2][4] = {}, ds[1][2][4];
        const OfStreamedRows<RowStatistics> of_query =
            load_streamed(statistics, slot * kTileRows + row, lane);
        begin_at_minus_delta(ds, of_query);
        scores<D, 1>(p, k, q);
        scores<D, 1>(ds, v, dout);
        const QueryChunks* seeing = chunks + slot * kTileRows + row + 2 * lane.t;
        for_scores(0, [&](ScoreIndex i) {
          const QueryChunks query = seeing[8 * i.j + i.side];
          const int at = tile * kTileRows + row + 8 * i.j + 2 * lane.t + i.side;
          const bool seen = (query.own == own.own[i.half] || query.before == own.own[i.half]) &&
                            at != warp.first + lane.g + 8 * i.half;
          const float weight =
              seen ? cuda::exp2_approximate(fmaf(i.of(p), factor[i.half], -of_query[i].lse)) : 0.0f;
          i.of(p) = weight;
          i.of(ds) = seen ? weight * i.of(ds) : 0.0f;
        });
        unsigned rounded_p[1][4], rounded_ds[1][4];
        pack_operand(rounded_p[0], p[0]);
        pack_operand(rounded_ds[0], ds[0]);
        accumulate<D, 1>(dv, rounded_p, dout);
        accumulate<D, 1>(dk, rounded_ds, q);
      }
    });
  }
};

// dq += (dk - n (n . dk)) / |k|, with n = k / |k|.
template <int D>
__device__ __forceinline__ void add_through_norm(float (&dq)[D / 8][4], const float (&dk)[D / 8][4],
                                                 const unsigned (&k)[D / 16][4],
                                                 const float (&inverse_norm)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float along = 0;
#pragma unroll
    for (int i = 0; i < D / 8; ++i) {
      const unsigned pair = k[i / 2][half + i % 2 * 2];
      along = fmaf(cuda::low_bfloat16(pair), dk[i][2 * half], along);
      along = fmaf(cuda::high_bfloat16(pair), dk[i][2 * half + 1], along);
    }
    const float factor = inverse_norm[half];
    along = sum_of_quad(along) * (factor * factor);
#pragma unroll
    for (int i = 0; i < D / 8; ++i) {
      const unsigned pair = k[i / 2][half + i % 2 * 2];
      float &x = dq[i][2 * half], &y = dq[i][2 * half + 1];
      x = fmaf(fmaf(-along, cuda::low_bfloat16(pair), dk[i][2 * half]), factor, x);
      y = fmaf(fmaf(-along, cuda::high_bfloat16(pair), dk[i][2 * half + 1]), factor, y);
    }
  }
}

template <int D>
__global__ void __launch_bounds__(kTileThreads, 2)
    hashed_tiles_backward_kernel(SortedProblem problem, SortedBackward arrays) {
  // [keys or queries, values or douts][kRingRows, kRowStride], and the terms or statistics of these
  // rows
  DTN_SHARED(bfloat16, shared);
  auto* statistics = reinterpret_cast<RowStatistics*>(shared + 2 * kRingSize<D>);
  auto* chunks = reinterpret_cast<QueryChunks*>(statistics + kRingRows);
  auto* terms = reinterpret_cast<KeyTerm*>(statistics);  // the two walks use this memory in turn
  const HeadShape& shape = problem.shape;
  const SortedWarp warp(problem);
  const Lane lane = this_lane();
  const std::int64_t head = warp.head.out(shape), stride = shape.out_stride;
  const std::int64_t of_head = problem.statistics(warp.head);
  const SortedRows<const bfloat16> qk{warp, arrays.qk + head, stride};
  const SortedRows<const bfloat16> values{warp, arrays.v + head, stride};
  const SortedRows<const bfloat16> douts{warp, arrays.dout + head, stride};

  cuda::AsyncCopies copies;
  unsigned own[1][D / 16][4], other[1][D / 16][4];
  load_gathered<D>(own[0], warp.first, warp.count, shape.dim, qk);
  load_gathered<D>(other[0], warp.first, warp.count, shape.dim, douts);
  SortedQueries<D> queries;
  queries.walk(problem, arrays, warp, own, other, shared, terms, copies, [&](int tile, int slot) {
    stream_gathered<D>(copies, shared, slot, tile, warp.count, shape.dim, qk);
    stream_gathered<D>(copies, shared + kRingSize<D>, slot, tile, warp.count, shape.dim, values);
    copies.commit();
    put_key_terms(terms, problem, warp, tile, slot);
  });

  float inverse_norm[2], factor[2], alone[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp.first + lane.g + 8 * half, token = warp.token(row);
    const bool counts = row < warp.count;
    inverse_norm[half] = counts ? problem.inverse_norm[of_head + token] : 0.0f;
    factor[half] = inverse_norm[half] * kLog2E;
    alone[half] = counts && arrays.lse[of_head + token] == INFINITY ? 1.0f : 0.0f;
  }
  SortedKeys<D> keys;
  if (__any_sync(cuda::kWholeWarp, alone[0] + alone[1] > 0)) {  // tokens that see only themselves
#pragma unroll
    for (int i = 0; i < D / 4; ++i) {
      const unsigned pair = other[0][i / 4][i % 4];
      const int n = i / 4 * 2 + i % 4 / 2, half = i % 2;
      keys.dv[0][n][2 * half] = cuda::low_bfloat16(pair) * alone[half];
      keys.dv[0][n][2 * half + 1] = cuda::high_bfloat16(pair) * alone[half];
    }
  }
  load_gathered<D>(other[0], warp.first, warp.count, shape.dim, values);
  keys.walk(
      problem, warp, factor, own, other, shared, statistics, chunks, copies,
      [&](int tile, int slot) {
        stream_gathered<D>(copies, shared, slot, tile, warp.count, shape.dim, qk);
        stream_gathered<D>(copies, shared + kRingSize<D>, slot, tile, warp.count, shape.dim, douts);
        copies.commit();
        for (int i = recomputed_thread(); i < kTileRows; i += kTileThreads) {
          const int row = tile * kTileRows + i, token = warp.token(row);
          const bool counts = row < warp.count;
          const int chunk = counts ? row / problem.chunk : -1;
          statistics[slot * kTileRows + i] = {counts ? arrays.lse[of_head + token] * kLog2E : 0.0f,
                                              counts ? arrays.delta[of_head + token] : 0.0f};
          chunks[slot * kTileRows + i] = {chunk, counts ? problem.chunk_before(chunk) : -1};
        }
      });

  // Each term of the sum in dq has a factor log2(e).
#pragma unroll
  for (int i = 0; i < D / 2; ++i) queries.dq[0][i / 4][i % 4] *= kLn2;
  add_through_norm<D>(queries.dq[0], keys.dk[0], own[0], inverse_norm);
  bfloat16* staging = shared + warp.index * 16 * kRowStride<D>;
  const float plain[2] = {1, 1};
  store_gathered<D>(queries.dq[0], plain, staging, warp.first, shape.tokens, shape.dim,
                    SortedRows<bfloat16>{warp, arrays.dqk + head, stride});
  store_gathered<D>(keys.dv[0], plain, staging + kRingSize<D>, warp.first, shape.tokens, shape.dim,
                    SortedRows<bfloat16>{warp, arrays.dv + head, stride});
}

SortedProblem sorted_problem(const HashedAttentionProblem& p, const std::int64_t* order,
                             const float* inverse_norm) {
  SortedProblem s{};
  s.shape.tokens = static_cast<int>(p.tokens);
  s.shape.heads = static_cast<int>(p.heads);
  s.shape.dim = static_cast<int>(p.head_dim);
  s.shape.out_stride = p.heads * p.head_dim;
  s.shape.blocks = static_cast<int>((p.positions + kTileRows - 1) / kTileRows);
  s.lengths = p.lengths, s.order = order, s.inverse_norm = inverse_norm;
  s.positions = static_cast<int>(p.positions);
  s.chunk = static_cast<int>(p.chunk()), s.buckets = static_cast<int>(p.buckets);
  return s;
}

template <class Kernel, class Arrays>
void start(CudaQueue& queue, const char* name, const HashedAttentionProblem& p, Kernel kernel,
           std::size_t shared_bytes, SortedProblem& sorted, const Arrays& arrays) {
  for_head_grids(sorted.shape, p.batch, [&](dim3 blocks) {
    launch(queue, {name, {p.batch, p.tokens, p.heads, p.head_dim}}, kernel,
           {blocks, kTileThreads, shared_bytes}, sorted, arrays);
  });
}

}  // namespace

bool has_hashed_tiles(const HashedAttentionProblem& p, const void* qk, const void* v,
                      const void* out) {
  const std::int64_t rounded = (p.head_dim + 15) / 16 * 16;
  return !p.lra && p.hashes == 1 && p.dtype == DType::kBFloat16 && p.head_dim % 8 == 0 &&
         (rounded == 16 || rounded == 32 || rounded == 64) && starts_aligned(qk) &&
         starts_aligned(v) && starts_aligned(out);
}

void hashed_tiles_forward(CudaQueue& queue, const HashedAttentionForward& args,
                          const float* inverse_norm) {
  const HashedAttentionProblem& p = args.problem;
  const SortedForward arrays{static_cast<const bfloat16*>(args.qk),
                             static_cast<const bfloat16*>(args.v), static_cast<bfloat16*>(args.out),
                             static_cast<float*>(args.lse)};
  for_tile_heads({}, p.head_dim, [&](auto columns, auto) {
    constexpr int D = columns;
    SortedProblem sorted = sorted_problem(p, args.order, inverse_norm);
    start(queue, "hashed_tiles_forward", p, hashed_tiles_forward_kernel<D>,
          2 * kRingSize<D> * sizeof(bfloat16) + kRingRows * sizeof(KeyTerm), sorted, arrays);
  });
}

void hashed_tiles_backward(CudaQueue& queue, const HashedAttentionBackward& args,
                           const float* inverse_norm, const float* delta) {
  const HashedAttentionProblem& p = args.problem;
  const SortedBackward arrays{static_cast<const bfloat16*>(args.qk),
                              static_cast<const bfloat16*>(args.v),
                              static_cast<const bfloat16*>(args.dout),
                              static_cast<const float*>(args.lse),
                              delta,
                              static_cast<bfloat16*>(args.dqk),
                              static_cast<bfloat16*>(args.dv)};
  for_tile_heads({}, p.head_dim, [&](auto columns, auto) {
    constexpr int D = columns;
    SortedProblem sorted = sorted_problem(p, args.order, inverse_norm);
    start(queue, "hashed_tiles_backward", p, hashed_tiles_backward_kernel<D>, kBackwardBytes<D>,
          sorted, arrays);
  });
}

}  // namespace dtn::attention
