// Attention inside groups on the device: where a thread block finds its rows, and the terms of a
// score. A unit is one group of one sample. Attention over whole samples is the case of one group,
// whose queries and keys are all tokens.
#pragma once

#include "kernels/attention/attention_device.cuh"
#include "kernels/cuda/partials.cuh"
#include "kernels/grouped_attention/grouped_attention.h"

namespace dtn::attention {

// Heads of an array whose rows are `ld` apart; head h begins `stride` values after head h - 1.
template <class T>
struct GroupedRows {
  T* first;
  std::int64_t ld, stride;
};

struct GroupedShape {
  int heads, groups, queries, keys, key_dim, value_dim;
  int blocks;       // thread blocks per head of a unit
  int first_image;  // first unit of this grid
  bool aligned;     // every row of a head consists of whole 16-byte vectors
  float scale;
  const std::int64_t* tokens;  // [G, n]; null: all tokens in order
  const float* regions;        // [G, n]; null: one region
  const float* bias;           // [H, queries, keys]; null: no bias

  // Offset of the queries of a unit's head in [B, G, H, queries].
  __device__ __forceinline__ std::int64_t row(BlockHead head) const {
    return (static_cast<std::int64_t>(head.image) * heads + head.head) * queries;
  }
};

template <class T>
struct GroupedInputs {
  GroupedRows<const T> q, k, v;
};

template <class T>
struct GroupedBackwardArrays {
  GroupedInputs<T> in;
  GroupedRows<const T> out, dout;
  GroupedRows<T> dq, dk, dv;
  const float* lse;
  RowStatistics* statistics;  // [B, G, H, queries]
};

// The rows of one head of a unit, in the order of its group. Unless kGrouped, the group is the
// whole sample.
template <class T, bool kGrouped>
struct UnitRows {
  const GroupedRows<T>& rows;
  int head;
  std::int64_t sample;         // its token 0
  const std::int64_t* tokens;  // of the group; null: all tokens in order

  __device__ __forceinline__ T* operator()(int i) const {
    return rows.first + (sample + (tokens ? tokens[i] : i)) * rows.ld + head * rows.stride;
  }
};
template <class T>
struct UnitRows<T, false> {
  T* first;
  std::int64_t ld;

  __device__ __forceinline__ T* operator()(int i) const { return first + i * ld; }
};

template <bool kGrouped, class T>
__device__ __forceinline__ UnitRows<T, kGrouped> unit_rows(const GroupedShape& shape,
                                                           const GroupedRows<T>& rows,
                                                           BlockHead head, int per_group) {
  if constexpr (kGrouped) {
    const std::int64_t sample = head.image / shape.groups, group = head.image % shape.groups;
    return {rows, head.head, sample * shape.groups * per_group,
            shape.tokens ? shape.tokens + group * per_group : nullptr};
  } else {
    const std::int64_t token = static_cast<std::int64_t>(head.image) * per_group;
    return {rows.first + token * rows.ld + head.head * rows.stride, rows.ld};
  }
}

// The terms added to the scores of a head of a unit: bias and penalty.
struct ScoreTerms {
  const float *bias, *regions;
  int keys;

  __device__ __forceinline__ ScoreTerms(const GroupedShape& shape, BlockHead head)
      : bias(shape.bias), regions(shape.regions), keys(shape.keys) {
    if (bias) bias += static_cast<std::int64_t>(head.head) * shape.queries * shape.keys;
    if (regions) regions += static_cast<std::int64_t>(head.image % shape.groups) * shape.keys;
  }
  // Both query and key must exist.
  __device__ __forceinline__ float operator()(int query, int key) const {
    float sum = bias ? bias[static_cast<std::int64_t>(query) * keys + key] : 0.0f;
    if (regions && regions[query] != regions[key]) {
      sum += static_cast<float>(GroupedAttentionProblem::kRegionPenalty);
    }
    return sum;
  }
};

template <class T>
GroupedRows<const T> grouped_rows(const HeadsOfRows<const void*>& heads) {
  return {static_cast<const T*>(heads.rows) + heads.first, heads.ld, heads.stride};
}
template <class T>
GroupedRows<T> grouped_rows(const HeadsOfRows<void*>& heads) {
  return {static_cast<T*>(heads.rows) + heads.first, heads.ld, heads.stride};
}
// The heads of an array [B, G queries, H, Dv].
template <class T, class Pointer>
auto grouped_outputs(const GroupedAttentionProblem& p, Pointer rows) {
  return grouped_rows<T>(HeadsOfRows<Pointer>{rows, p.heads * p.value_dim, 0, p.value_dim});
}
template <class T>
GroupedInputs<T> grouped_inputs(const GroupedAttentionProblem& p) {
  return {grouped_rows<T>(p.q), grouped_rows<T>(p.k), grouped_rows<T>(p.v)};
}

template <class T>
GroupedBackwardArrays<T> grouped_backward_arrays(const GroupedAttentionBackward& args,
                                                 RowStatistics* statistics) {
  const GroupedAttentionProblem& p = args.problem;
  return {grouped_inputs<T>(p),
          grouped_outputs<T>(p, args.out),
          grouped_outputs<T>(p, args.dout),
          grouped_rows<T>(args.dq),
          grouped_rows<T>(args.dk),
          grouped_rows<T>(args.dv),
          static_cast<const float*>(args.lse),
          statistics};
}

template <class T>
bool is_vectorizable(const GroupedRows<T>& rows, std::int64_t dim) {
  constexpr std::int64_t n = cuda::kPerVector<std::remove_const_t<T>>;
  return starts_aligned(rows.first) && rows.ld % n == 0 && rows.stride % n == 0 && dim % n == 0;
}

// The problem as a kernel receives it, without the division into blocks.
template <class T>
GroupedShape grouped_shape(const GroupedAttentionProblem& p) {
  const GroupedInputs<T> in = grouped_inputs<T>(p);
  GroupedShape shape{};
  shape.heads = static_cast<int>(p.heads), shape.groups = static_cast<int>(p.groups);
  shape.queries = static_cast<int>(p.queries), shape.keys = static_cast<int>(p.keys);
  shape.key_dim = static_cast<int>(p.key_dim), shape.value_dim = static_cast<int>(p.value_dim);
  shape.aligned = is_vectorizable(in.q, p.key_dim) && is_vectorizable(in.k, p.key_dim) &&
                  is_vectorizable(in.v, p.value_dim);
  shape.scale = static_cast<float>(p.scale);
  shape.tokens = p.tokens, shape.regions = p.regions;
  shape.bias = static_cast<const float*>(p.bias);
  return shape;
}

// Launches a kernel with a block per `rows_per_block` of the `rows` of each head of a unit.
template <class... P, class... A>
void launch_for_units(CudaQueue& queue, const KernelName& name, void (*kernel)(GroupedShape, P...),
                      unsigned threads, std::size_t shared_bytes, GroupedShape shape,
                      const GroupedAttentionProblem& p, std::int64_t rows, int rows_per_block,
                      const A&... args) {
  shape.blocks = static_cast<int>(blocks_for(rows, rows_per_block).x);
  for_head_grids(shape, p.batch * p.groups, [&](dim3 blocks) {
    launch(queue, name, kernel, {blocks, threads, shared_bytes}, shape, args...);
  });
}

inline KernelName grouped_kernel_name(const char* name, const GroupedAttentionProblem& p) {
  return {name, {p.batch, p.groups, p.queries, p.keys, p.heads, p.key_dim}};
}

// Division of the gradient of the bias: a block sums one tile of queries and keys of a head over a
// run of units.
struct BiasTiles {
  int units, run;  // all units; units per block
  int query_tiles, key_tiles;
  float* partial;  // [runs, H, queries, keys]
};

// The tile and the run of units of a thread block.
struct BiasTile {
  int key_tile, query_tile, head, run;

  __device__ __forceinline__ BiasTile(const BiasTiles& tiles, const GroupedShape& shape) {
    int index = static_cast<int>(blockIdx.x);
    key_tile = index % tiles.key_tiles;
    index /= tiles.key_tiles;
    query_tile = index % tiles.query_tiles;
    index /= tiles.query_tiles;
    head = index % shape.heads, run = index / shape.heads;
  }
  __device__ __forceinline__ int first_unit(const BiasTiles& tiles) const {
    return run * tiles.run;
  }
  __device__ __forceinline__ int end_unit(const BiasTiles& tiles) const {
    const int end = (run + 1) * tiles.run;
    return end < tiles.units ? end : tiles.units;
  }
  // The sums [queries, keys] of the run and the head.
  __device__ __forceinline__ float* partial(const BiasTiles& tiles,
                                            const GroupedShape& shape) const {
    return tiles.partial +
           (static_cast<std::int64_t>(run) * shape.heads + head) * shape.queries * shape.keys;
  }
};

// If the gradient of the bias is needed, dbias += the sum of ds over all units. The kernel sums
// tiles of `query_rows` x `key_rows`. The number of runs is chosen to give some hundred blocks, a
// few per multiprocessor.
template <class T>
void sum_bias_tiles(CudaQueue& queue, const GroupedAttentionBackward& args, int query_rows,
                    int key_rows, const char* name,
                    void (*kernel)(GroupedShape, GroupedBackwardArrays<T>, BiasTiles),
                    LaunchShape launched, const GroupedShape& shape,
                    const GroupedBackwardArrays<T>& arrays) {
  constexpr std::int64_t kBlocks = 512;
  const GroupedAttentionProblem& p = args.problem;
  if (!p.bias || !args.dbias) return;
  BiasTiles tiles{};
  tiles.query_tiles = static_cast<int>(blocks_for(p.queries, query_rows).x);
  tiles.key_tiles = static_cast<int>(blocks_for(p.keys, key_rows).x);
  const std::int64_t units = p.batch * p.groups;
  const std::int64_t per_run = p.heads * tiles.query_tiles * tiles.key_tiles;
  const std::int64_t wanted = (kBlocks + per_run - 1) / per_run;
  const std::int64_t run = (units + wanted - 1) / wanted, runs = (units + run - 1) / run;
  tiles.units = static_cast<int>(units), tiles.run = static_cast<int>(run);
  const std::int64_t numel = p.heads * p.queries * p.keys;
  const auto partial = queue.scratch<float>(runs * numel);
  tiles.partial = partial.get();
  launched.grid = blocks_for(runs * per_run, 1);
  launch(queue, grouped_kernel_name(name, p), kernel, launched, shape, arrays, tiles);
  cuda::add_partials(queue, "grouped_attention_bias_gradient",
                     {partial.get(), runs, numel, 1, {static_cast<float*>(args.dbias), nullptr}});
}

}  // namespace dtn::attention
