// Layer normalization by rows, backward; see layer_norm.h for the formulas.
//
// x, dy and dx_add are read once and dx is written once. This is the minimum memory traffic: 4 C
// sizeof(T) bytes per row. A block takes a chunk of rows that depends only on the shape, and its
// warps take the rows in turn. A lane keeps the running dweight and dbias of its columns in
// registers. This leaves no room for the weights, which come from the first-level cache each time.
// At the end of the chunk, the block adds the sums of its warps in order and writes partial sums,
// 8 C bytes for 32 rows or more. A second kernel adds these up. The column sums of dbranch, if they
// are requested, are a third row of partial sums, which saves another pass over dbranch.
//
// The gradients of a gated branch are another pass: their sums would need more registers.
//
// Rows that do not fit in registers take a block each for dx. They are read a second time for the
// parameter gradients, with one thread per column.
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/partials.cuh"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/layer_norm_shape.cuh"
#include "kernels/pointwise/modulate.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / cuda::kWarpSize;
constexpr int kMinRows = 32;  // per chunk, 8 per warp

// Means over the channels of dxhat and dxhat xhat.
struct RowMeans {
  float sum, dot;
};

template <class T>
struct Backward {
  std::int64_t rows, channels;
  float inverse_channels;
  const T* x;
  const float* weight;
  const float* mean;
  const float* rstd;
  const T* dy;
  const T* dx_add;
  T* dx;
  T* dbranch;
  const float* row_scale;
  std::int64_t rows_per_scale;
  ParameterSets sets;                   // at least one set
  std::int64_t chunks, rows_per_chunk;  // per set
  float* partials;                      // [sets, chunks, outputs_of(kind), C]
  const float* drow_mean;
  const float* drow_std;

  __device__ __forceinline__ float scale_of(std::int64_t row) const {
    return row_scale ? row_scale[row / rows_per_scale] : 1.0f;
  }
  // Adds the gradients of a row's mean and standard deviation. They enter dx through the means of
  // dxhat and dxhat xhat, which dx subtracts.
  __device__ __forceinline__ void add_moment_gradients(std::int64_t row, float rstd_of_row,
                                                       RowMeans& means) const {
    const float spread = inverse_channels / rstd_of_row;
    if (drow_mean) means.sum -= drow_mean[row] * spread;
    if (drow_std) means.dot -= drow_std[row] * spread;
  }
};

// Variants that are compiled separately, so that the plain kernel contains only what it needs.
enum class Kind { kPlain, kBySets, kBranchSums };
// Number of rows of partial sums: dweight, dbias, and the column sums of dbranch.
constexpr int outputs_of(Kind kind) { return kind == Kind::kBranchSums ? 3 : 2; }

// Rows of a block, and the offset of their parameters.
template <bool kBySets>
struct Chunk {
  std::int64_t begin, end, parameters = 0;

  template <class T>
  __device__ __forceinline__ Chunk(const Backward<T>& a, std::int64_t block) {
    std::int64_t last = a.rows;
    if constexpr (kBySets) {
      const std::int64_t set = block / a.chunks;
      begin = set * a.sets.rows + (block - set * a.chunks) * a.rows_per_chunk;
      last = (set + 1) * a.sets.rows;
      parameters = set * a.sets.stride;
    } else {
      begin = block * a.rows_per_chunk;
    }
    end = last - begin < a.rows_per_chunk ? last : begin + a.rows_per_chunk;
  }
};

// Statistics that normalize a row. base is x[row, 0], and `mean` is relative to it; see
// LayerNormForward.
struct RowStatistics {
  float base, mean, rstd;

  __device__ __forceinline__ float normalized(float x) const {
    return fmaf(x - base, rstd, -mean * rstd);
  }
};

__device__ __forceinline__ float input_gradient(float dxhat, float xhat, const RowMeans& means,
                                                float rstd) {
  return (dxhat - means.sum - xhat * means.dot) * rstd;
}

// Rows per warp. Short rows are processed two at a time, for more bytes in flight.
template <class T>
constexpr int rows_together(int values, bool wide) {
  return wide && values * sizeof(T) <= 32 ? 2 : 1;
}

// Minimum resident blocks per multiprocessor, which limits the registers of a thread.
template <class T>
constexpr int resident_blocks(int values, bool wide, Kind kind) {
  if (!wide) return 1;
  if (kind != Kind::kPlain) return values <= 16 ? 3 : 2;
  return values <= 16 ? 4 : values * sizeof(T) <= 96 ? 3 : 2;
}

// Values that a warp holds of the rows from `first` to `end`.
template <class T, int kValues, bool kWide, Kind kKind>
struct RowGroup {
  static constexpr bool kBySets = kKind == Kind::kBySets;
  using Row = cuda::LaneValues<T, kValues, kWide>;
  static constexpr int kRows = rows_together<T>(kValues, kWide);
  static constexpr int kRun = Row::kRun;
  Row x[kRows], dy[kRows], add[kRows];
  RowStatistics row[kRows];
  RowMeans means[kRows];

  __device__ __forceinline__ void load(const Backward<T>& a, std::int64_t first, std::int64_t end,
                                       int lane) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool live = first + r < end;
      const int columns = live ? static_cast<int>(a.channels) : 0;
      const std::int64_t offset = (first + r) * a.channels;
      x[r].load(a.x + offset, lane, columns);
      dy[r].load(a.dy + offset, lane, columns);
      add[r].load(a.dx_add ? a.dx_add + offset : nullptr, lane, a.dx_add ? columns : 0);
      row[r] = {0, live ? a.mean[first + r] : 0.0f, live ? a.rstd[first + r] : 0.0f};
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) row[r].base = __shfl_sync(cuda::kWholeWarp, x[r][0], 0);
  }

  // Adds the rows to the parameter gradients of this lane's columns, and computes the means.
  __device__ __forceinline__ void add_up(const Backward<T>& a, std::int64_t parameters, int lane,
                                         float (&dweight)[kValues], float (&dbias)[kValues]) {
    const int channels = static_cast<int>(a.channels);
#pragma unroll
    for (int r = 0; r < kRows; ++r) means[r] = {};
#pragma unroll
    for (int i = 0; i < kValues; i += kRun) {
      const int c = Row::column(lane, i);
      if (c >= channels) continue;
      float weight[kRun];
      if constexpr (kBySets) {
        load_gains<Row>(a.weight, a.sets, parameters + c, weight);
      } else {
        Row::load_float_run(a.weight + c, weight);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int k = 0; k < kRun; ++k) {
          const float g = dy[r][i + k], xhat = row[r].normalized(x[r][i + k]);
          dbias[i + k] += g;
          dweight[i + k] += g * xhat;
          means[r].sum += g * weight[k];
          means[r].dot += g * weight[k] * xhat;
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      means[r].sum = cuda::warp_sum(means[r].sum) * a.inverse_channels;
      means[r].dot = cuda::warp_sum(means[r].dot) * a.inverse_channels;
    }
  }

  // Writes dx and dbranch. Kind::kBranchSums adds the columns of dbranch to `branch`.
  __device__ __forceinline__ void write(const Backward<T>& a, std::int64_t parameters,
                                        std::int64_t first, std::int64_t end, int lane,
                                        float (&branch)[kValues]) {
    const int channels = static_cast<int>(a.channels);
    float scale[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      scale[r] = a.dbranch && first + r < end ? a.scale_of(first + r) : 0.0f;
      if constexpr (kBySets) {
        if (first + r < end) a.add_moment_gradients(first + r, row[r].rstd, means[r]);
      }
    }
#pragma unroll
    for (int i = 0; i < kValues; i += kRun) {
      const int c = Row::column(lane, i);
      if (c >= channels) continue;
      float weight[kRun];
      if constexpr (kBySets) {
        load_gains<Row>(a.weight, a.sets, parameters + c, weight);
      } else {
        Row::load_float_run(a.weight + c, weight);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (first + r >= end) continue;
        const std::int64_t at = (first + r) * a.channels + c;
        float dx[kRun];
#pragma unroll
        for (int k = 0; k < kRun; ++k) {
          dx[k] = input_gradient(dy[r][i + k] * weight[k], row[r].normalized(x[r][i + k]), means[r],
                                 row[r].rstd) +
                  add[r][i + k];
        }
        Row::store_run(a.dx + at, dx);
        if (!a.dbranch) continue;
#pragma unroll
        for (int k = 0; k < kRun; ++k) {
          dx[k] = cuda::to_float(cuda::from_float<T>(dx[k])) * scale[r];
          if constexpr (kKind == Kind::kBranchSums) branch[i + k] += dx[k];
        }
        Row::store_run(a.dbranch + at, dx);
      }
    }
  }
};

// Blocks: one per chunk of rows.
template <class T, int kValues, bool kWide, Kind kKind>
__global__ void __launch_bounds__(kThreads, resident_blocks<T>(kValues, kWide, kKind))
    layer_norm_backward_kernel(Backward<T> a) {
  using Group = RowGroup<T, kValues, kWide, kKind>;
  DTN_SHARED(float, shared);  // [kWarps, outputs, C]
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const int channels = static_cast<int>(a.channels);
  const Chunk<Group::kBySets> chunk(a, blockIdx.x);
  float dweight[kValues] = {}, dbias[kValues] = {}, branch[kValues] = {};
  for (std::int64_t first = chunk.begin + warp * Group::kRows; first < chunk.end;
       first += kWarps * Group::kRows) {
    Group group;
    group.load(a, first, chunk.end, lane);
    group.add_up(a, chunk.parameters, lane, dweight, dbias);
    if (a.dx) group.write(a, chunk.parameters, first, chunk.end, lane, branch);
  }

  if (!a.partials) return;
  constexpr int kOutputs = outputs_of(kKind);
  float* of_warp = shared + warp * kOutputs * channels;
  Group::Row::store_floats(of_warp, lane, channels, dweight);
  Group::Row::store_floats(of_warp + channels, lane, channels, dbias);
  if constexpr (kKind == Kind::kBranchSums) {
    Group::Row::store_floats(of_warp + 2 * channels, lane, channels, branch);
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < kOutputs * channels; c += kThreads) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared[w * kOutputs * channels + c];
    a.partials[static_cast<std::int64_t>(blockIdx.x) * kOutputs * channels + c] = sum;
  }
}

// Computes dx of long rows, one block per row. A thread owns the same columns in both passes.
template <class T>
__global__ void __launch_bounds__(kThreads) layer_norm_backward_long_kernel(Backward<T> a) {
  DTN_SHARED(float, shared);
  const std::int64_t r = blockIdx.x, first = r * a.channels;
  const T* x = a.x + first;
  const RowStatistics row{cuda::to_float(x[0]), a.mean[r], a.rstd[r]};
  const std::int64_t parameters = r / a.sets.rows * a.sets.stride;
  auto weight = [&](std::int64_t c) { return gain_at(a.weight, a.sets, parameters + c); };
  RowMeans means{};
  for (std::int64_t c = threadIdx.x; c < a.channels; c += kThreads) {
    const float dxhat = cuda::to_float(a.dy[first + c]) * weight(c);
    means.sum += dxhat;
    means.dot += dxhat * row.normalized(cuda::to_float(x[c]));
  }
  means.sum = cuda::block_sum(means.sum, shared) * a.inverse_channels;
  means.dot = cuda::block_sum(means.dot, shared) * a.inverse_channels;
  a.add_moment_gradients(r, row.rstd, means);
  const float scale = a.dbranch ? a.scale_of(r) : 0.0f;
  for (std::int64_t c = threadIdx.x; c < a.channels; c += kThreads) {
    const float dxhat = cuda::to_float(a.dy[first + c]) * weight(c);
    float dx = input_gradient(dxhat, row.normalized(cuda::to_float(x[c])), means, row.rstd);
    if (a.dx_add) dx += cuda::to_float(a.dx_add[first + c]);
    const T stored = cuda::from_float<T>(dx);
    a.dx[first + c] = stored;
    if (a.dbranch) a.dbranch[first + c] = cuda::from_float<T>(cuda::to_float(stored) * scale);
  }
}

// Computes the parameter gradients of long rows, one thread per column of a chunk.
// Blocks: [chunks, C / kThreads].
template <class T>
__global__ void __launch_bounds__(kThreads) layer_norm_backward_columns_kernel(Backward<T> a) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (c >= a.channels) return;
  const Chunk<true> chunk(a, blockIdx.x);
  float dweight = 0, dbias = 0;
#pragma unroll 4
  for (std::int64_t r = chunk.begin; r < chunk.end; ++r) {
    const T* x = a.x + r * a.channels;
    const RowStatistics row{cuda::to_float(x[0]), a.mean[r], a.rstd[r]};
    const float dy = cuda::to_float(a.dy[r * a.channels + c]);
    dweight += dy * row.normalized(cuda::to_float(x[c]));
    dbias += dy;
  }
  float* sums = a.partials + blockIdx.x * 2 * a.channels + c;
  sums[0] = dweight;
  sums[a.channels] = dbias;
}

// Adds the chunks of each set in order, for many sets with few chunks each.
// Blocks: [sets, 2 C / kThreads].
__global__ void __launch_bounds__(kThreads)
    add_set_partials_kernel(const float* partials, std::int64_t chunks, std::int64_t channels,
                            float* dweight, float* dbias, std::int64_t stride) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (column >= 2 * channels) return;
  float* totals = column < channels ? dweight : dbias;
  if (!totals) return;
  const float* sums = partials + blockIdx.x * chunks * 2 * channels + column;
  float sum = 0;
#pragma unroll 8
  for (std::int64_t k = 0; k < chunks; ++k) sum += sums[k * 2 * channels];
  totals[blockIdx.x * stride + column % channels] += sum;
}

template <class T>
bool is_wide(const Backward<T>& a) {
  return rows_are_wide<T>(a.channels, {a.x, a.dy, a.dx_add, a.dx, a.dbranch, a.weight}) &&
         a.sets.stride % 4 == 0;
}

template <class T>
Kind kind_of(const Backward<T>& a, bool branch_sums) {
  if (a.sets.rows < a.rows || a.sets.scales || a.drow_mean || a.drow_std || !a.weight) {
    return Kind::kBySets;
  }
  return branch_sums && is_held(a.channels, is_wide(a)) ? Kind::kBranchSums : Kind::kPlain;
}

template <class T>
void backward(CudaQueue& queue, const Backward<T>& a, Kind kind) {
  const std::int64_t chunks = a.rows / a.sets.rows * a.chunks;
  const KernelName kernel{"layer_norm_backward", {a.rows, a.channels}};
  const bool wide = is_wide(a);
  if (!is_held(a.channels, wide)) {
    // The sums come first, because dx may overwrite dy.
    if (a.partials) {
      dim3 grid(static_cast<unsigned>(chunks), blocks_for(a.channels, kThreads).x);
      launch(queue, kernel, layer_norm_backward_columns_kernel<T>, {grid, kThreads}, a);
    }
    if (a.dx) {
      launch(queue, kernel, layer_norm_backward_long_kernel<T>,
             {blocks_for(a.rows, 1), kThreads, kWarps * sizeof(float)}, a);
    }
    return;
  }
  for_held_row(a.channels, wide, [&](auto values, auto is_wide) {
    const std::int64_t sums = kWarps * outputs_of(kind) * a.channels;
    const LaunchShape shape{blocks_for(chunks, 1), kThreads,
                            static_cast<std::size_t>(sums) * sizeof(float)};
    auto launch_as = [&](auto constant) {
      launch(queue, kernel, layer_norm_backward_kernel<T, values, is_wide, constant>, shape, a);
    };
    switch (kind) {
      case Kind::kPlain: return launch_as(std::integral_constant<Kind, Kind::kPlain>{});
      case Kind::kBySets: return launch_as(std::integral_constant<Kind, Kind::kBySets>{});
      case Kind::kBranchSums: return launch_as(std::integral_constant<Kind, Kind::kBranchSums>{});
    }
  });
}

template <class T>
void add_partials(CudaQueue& queue, const Backward<T>& a, Kind kind,
                  const LayerNormBackward& args) {
  const std::int64_t sets = a.rows / a.sets.rows;
  auto* dweight = static_cast<float*>(args.dweight);
  auto* dbias = static_cast<float*>(args.dbias);
  if (sets == 1) {
    auto* branch = static_cast<float*>(args.dbranch_sums);
    cuda::Partials sums{
        a.partials, a.chunks, a.channels, outputs_of(kind), {dweight, dbias, branch}};
    return cuda::add_partials(queue, "layer_norm_add_partials", sums);
  }
  const dim3 grid(static_cast<unsigned>(sets), blocks_for(2 * a.channels, kThreads).x);
  launch(queue, {"layer_norm_add_set_partials", {sets, a.chunks, a.channels}},
         add_set_partials_kernel, {grid, kThreads}, a.partials, a.chunks, a.channels, dweight,
         dbias, a.sets.stride);
}

}  // namespace

void run(CudaQueue& queue, const LayerNormBackward& args) {
  for_cuda_dtype("layer_norm_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    check_gate(args);
    if (args.rows == 0 || args.channels == 0) return;
    Backward<T> a{};
    a.rows = args.rows, a.channels = args.channels;
    a.inverse_channels = 1.0f / static_cast<float>(args.channels);
    a.x = static_cast<const T*>(args.x);
    a.weight = static_cast<const float*>(args.weight);
    a.mean = static_cast<const float*>(args.mean);
    a.rstd = static_cast<const float*>(args.rstd);
    a.dy = static_cast<const T*>(args.dy);
    a.dx_add = static_cast<const T*>(args.dx_add);
    a.dx = static_cast<T*>(args.dx);
    a.dbranch = args.gate ? nullptr : static_cast<T*>(args.dbranch);
    a.row_scale = static_cast<const float*>(args.row_scale);
    a.rows_per_scale = args.rows_per_scale;
    a.drow_mean = static_cast<const float*>(args.drow_mean);
    a.drow_std = static_cast<const float*>(args.drow_std);
    a.sets = args.sets.rows > 0 ? args.sets : ParameterSets{args.rows, 0};
    const std::int64_t sets = args.rows / a.sets.rows;
    a.rows_per_chunk = cuda::rows_per_chunk(args.rows, kMinRows, 2 * kWarps);
    a.chunks = (a.sets.rows + a.rows_per_chunk - 1) / a.rows_per_chunk;
    const Kind kind = kind_of(a, args.dbranch_sums != nullptr);
    if (args.dweight || args.dbias || kind == Kind::kBranchSums) {
      auto partials = queue.scratch<float>(sets * a.chunks * outputs_of(kind) * args.channels);
      a.partials = partials.get();
      backward(queue, a, kind);
      add_partials(queue, a, kind, args);
    } else {
      backward(queue, a, kind);
    }
    if (args.gate) {
      run(queue, GateBackward{args.dtype, sets, a.sets.rows, args.channels, args.branch, args.gate,
                              args.dx, args.dbranch, args.dgate});
    }
    if (!args.dbranch_sums || kind == Kind::kBranchSums) return;
    run(queue, SumRows{args.dtype, args.rows, args.channels, args.dbranch, args.dbranch_sums});
  });
}

}  // namespace dtn
