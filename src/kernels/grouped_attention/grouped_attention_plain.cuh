// Shared parts of the kernels of attention inside groups: where a thread block finds its rows, and
// the terms of a score. They use the building blocks of attention_plain.cuh, in true float32. A
// unit is one group of one sample.
#pragma once

#include "kernels/attention/attention_plain.cuh"
#include "kernels/cuda/partials.cuh"
#include "kernels/grouped_attention/grouped_attention.h"

namespace dtn::attention {

inline constexpr int kGroupedColumns = 4;  // C: rows of up to 16 C = 64 channels
static_assert(16 * kGroupedColumns == kMaxGroupedHead);

// Heads of an array whose rows are `ld` apart; head h begins `stride` values after head h - 1.
template <class T>
struct GroupedRows {
  T* first;
  std::int64_t ld, stride;
};

struct GroupedShape {
  int heads, groups, queries, keys, key_dim, value_dim;
  int blocks;    // thread blocks per head of a unit
  bool aligned;  // every row of a head consists of whole 16-byte vectors
  float scale;
  const std::int64_t* tokens;  // [G, n]; null: all tokens in order
  const float* regions;        // [G, n]; null: one region
  const float* bias;           // [H, queries, keys]; null: no bias
};

template <class T>
struct GroupedInputs {
  GroupedRows<const T> q, k, v;
};

// The unit and head of a thread block, and the block's index among the blocks of this head.
struct GroupedBlock {
  int unit, head, block;
  __device__ __forceinline__ std::int64_t statistics(const GroupedShape& shape) const {
    return (static_cast<std::int64_t>(unit) * shape.heads + head) * shape.queries;
  }
};
__device__ __forceinline__ GroupedBlock grouped_block(const GroupedShape& shape) {
  const int index = static_cast<int>(blockIdx.x), item = index / shape.blocks;
  return {item / shape.heads, item % shape.heads, index % shape.blocks};
}

// The rows of one head of a unit, from position `first` of its group on.
template <class T>
struct UnitRows {
  T* sample;  // token 0 of the sample, at the head's columns
  std::int64_t ld;
  const std::int64_t* tokens;
  int first;

  __device__ __forceinline__ T* operator()(int i) const {
    return sample + (tokens ? tokens[first + i] : first + i) * ld;
  }
};

template <class T>
__device__ __forceinline__ UnitRows<T> unit_rows(const GroupedShape& shape,
                                                 const GroupedRows<T>& rows, int unit, int head,
                                                 int per_group, int first) {
  const int sample = unit / shape.groups, group = unit % shape.groups;
  const std::int64_t token = static_cast<std::int64_t>(sample) * shape.groups * per_group;
  return {rows.first + token * rows.ld + head * rows.stride, rows.ld,
          shape.tokens ? shape.tokens + static_cast<std::int64_t>(group) * per_group : nullptr,
          first};
}

// Blocks per multiprocessor, for the launch bounds. Without it the compiler uses fewer registers
// than it needs.
inline constexpr int kGroupedBlocks = 2;

// Copies up to `count` rows of a head, from row `first` of its group on, to shared memory.
template <class T>
__device__ __forceinline__ void load_unit_rows(float* to, const GroupedShape& shape,
                                               const GroupedRows<const T>& rows, int unit, int head,
                                               int per_group, int first, int count, int dim) {
  const int left = per_group - first;
  load_rows_at<kGroupedColumns, T>(to, unit_rows(shape, rows, unit, head, per_group, first), count,
                                   left, dim, shape.aligned);
}

// The terms added to the scores of a head of a unit: bias and penalty.
struct ScoreTerms {
  const float *bias, *regions;
  int keys;

  __device__ __forceinline__ ScoreTerms(const GroupedShape& shape, int unit, int head)
      : bias(shape.bias), regions(shape.regions), keys(shape.keys) {
    if (bias) bias += static_cast<std::int64_t>(head) * shape.queries * shape.keys;
    if (regions) regions += static_cast<std::int64_t>(unit % shape.groups) * shape.keys;
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
bool is_vectorizable(const GroupedRows<T>& rows, std::int64_t dim) {
  constexpr std::int64_t n = cuda::kPerVector<std::remove_const_t<T>>;
  return starts_aligned(rows.first) && rows.ld % n == 0 && rows.stride % n == 0 && dim % n == 0;
}

// Checks that the kernels support the problem. `blocks` is left at 1.
template <class T>
GroupedShape grouped_shape(const char* name, const GroupedAttentionProblem& p) {
  DTN_CHECK(p.key_dim <= kMaxGroupedHead && p.value_dim <= kMaxGroupedHead, name, ": heads of ",
            p.key_dim, " and ", p.value_dim, " channels; CUDA devices take up to ",
            kMaxGroupedHead);
  const GroupedInputs<T> in = grouped_inputs<T>(p);
  GroupedShape shape{};
  shape.heads = static_cast<int>(p.heads), shape.groups = static_cast<int>(p.groups);
  shape.queries = static_cast<int>(p.queries), shape.keys = static_cast<int>(p.keys);
  shape.key_dim = static_cast<int>(p.key_dim), shape.value_dim = static_cast<int>(p.value_dim);
  shape.blocks = 1;
  shape.aligned = is_vectorizable(in.q, p.key_dim) && is_vectorizable(in.k, p.key_dim) &&
                  is_vectorizable(in.v, p.value_dim);
  shape.scale = static_cast<float>(p.scale);
  shape.tokens = p.tokens, shape.regions = p.regions;
  shape.bias = static_cast<const float*>(p.bias);
  return shape;
}

// Without keys or columns there is nothing to attend to.
inline bool is_empty(const GroupedAttentionProblem& p) {
  return p.batch * p.groups * p.heads * p.queries * p.keys * p.key_dim * p.value_dim == 0;
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

// dbias += the sum of ds over all units. start(tiles, blocks) launches the kernel, which sums tiles
// of `queries` x `keys`. The number of runs is chosen to give some hundred blocks, a few per
// multiprocessor.
template <class Start>
void sum_bias_tiles(CudaQueue& queue, const GroupedAttentionProblem& p, int queries, int keys,
                    float* dbias, const Start& start) {
  constexpr std::int64_t kBlocks = 512;
  BiasTiles tiles{};
  tiles.query_tiles = static_cast<int>(blocks_for(p.queries, queries).x);
  tiles.key_tiles = static_cast<int>(blocks_for(p.keys, keys).x);
  const std::int64_t units = p.batch * p.groups;
  const std::int64_t per_run = p.heads * tiles.query_tiles * tiles.key_tiles;
  const std::int64_t wanted = (kBlocks + per_run - 1) / per_run;
  const std::int64_t run = (units + wanted - 1) / wanted, runs = (units + run - 1) / run;
  tiles.units = static_cast<int>(units), tiles.run = static_cast<int>(run);
  const std::int64_t numel = p.heads * p.queries * p.keys;
  const auto partial = queue.scratch<float>(runs * numel);
  tiles.partial = partial.get();
  start(tiles, blocks_for(runs * per_run, 1));
  cuda::add_partials(queue, "grouped_attention_bias_gradient",
                     {partial.get(), runs, numel, 1, {dbias, nullptr}});
}

}  // namespace dtn::attention
