// Layer normalization by rows, forward, alone or after the residual sum; see layer_norm.h.
//
// A warp holds up to four short rows, or one long row, in registers. So x is read once and y is
// written once. The minimum memory traffic is 2 C sizeof(T) bytes per row (4 C sizeof(T) with the
// residual and the sum). The kernel is limited by memory: it needs only about a dozen instructions
// per element. The mean is computed in two steps: a rough mean, and the mean of the differences
// from it. The variance uses the same differences. So neither loses digits when |mean| is much
// larger than the standard deviation. Rows that do not fit in registers take a block each, which
// reads them again from the cache.
//
// Products that are added are written as fmaf or __fmul_rn, so that the compiler has no choice
// about contraction: the fused kernel and the plain kernel must round alike.
#include "kernels/cuda/lanes.cuh"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/layer_norm_shape.cuh"

namespace dtn {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / cuda::kWarpSize;

// Variants that are compiled separately, so that the plain kernel contains only what it needs.
// kResidual adds the residual first. kBySets supports parameters per set of rows, missing
// parameters, and moments as outputs. kGated is kBySets, and adds a residual with a gate first.
enum class Form { kPlain, kResidual, kBySets, kGated };

constexpr bool adds_residual(Form form) { return form == Form::kResidual || form == Form::kGated; }
constexpr bool is_by_sets(Form form) { return form == Form::kBySets || form == Form::kGated; }

template <class T>
struct Forward {
  std::int64_t rows, channels;
  float inverse_channels, eps;
  const T* x;  // or the residual, if there is a branch
  const T* branch;
  const float* row_scale;
  std::int64_t rows_per_scale;
  const float* gate;
  T* sum;
  const float* weight;
  const float* bias;
  T* y;
  float* mean;
  float* rstd;
  ParameterSets sets;
  float* row_mean;
  float* row_std;

  __device__ __forceinline__ float mean_of(float total) const {
    return __fmul_rn(total, inverse_channels);
  }
  __device__ __forceinline__ float scale_of(std::int64_t row) const {
    return row_scale ? row_scale[row / rows_per_scale] : 1.0f;
  }
  // Returns the gate of the row's set.
  __device__ __forceinline__ const float* gate_of(std::int64_t row) const {
    return gate + row / sets.rows * channels;
  }
  // Returns the offset of the row's parameters.
  __device__ __forceinline__ std::int64_t parameters_of(std::int64_t row) const {
    return sets.rows > 0 ? row / sets.rows * sets.stride : 0;
  }
};

//    x - mean = (x - rough) - delta
struct Moments {
  float rough, delta, rstd;

  __device__ __forceinline__ float normalized(float x) const {
    return fmaf(x - rough, rstd, -delta * rstd);
  }
};

// Computes the moments from the means of d = x - rough and of d^2.
__device__ __forceinline__ Moments moments(float rough, float delta, float square, float eps) {
  const float v = fmaf(-delta, delta, square) + eps;
  const float r = rsqrtf(v);  // accurate to 2 units in the last place; the Newton step makes it 1
  return {rough, delta, fmaf(0.5f * r, fmaf(-v * r, r, 1.0f), r)};
}

// Called by one thread per row. x0 is the first value of the row.
template <Form kForm, class T>
__device__ __forceinline__ void store_moments(const Forward<T>& a, std::int64_t row, float x0,
                                              const Moments& m) {
  a.mean[row] = (m.rough - x0) + m.delta;
  a.rstd[row] = m.rstd;
  if constexpr (is_by_sets(kForm)) {
    if (a.row_mean) a.row_mean[row] = m.rough + m.delta;
    if (a.row_std) a.row_std[row] = 1.0f / m.rstd;
  }
}

// Rows per warp. Short rows are processed several at a time, for more bytes in flight.
constexpr int rows_together(int values, bool residual) {
  const int rows = values <= 8 ? 4 : values <= 16 ? 2 : 1;
  return residual && rows > 1 ? rows / 2 : rows;
}

// Minimum resident blocks per multiprocessor, which limits the registers of a thread.
constexpr int resident_blocks(int values, bool wide) { return !wide ? 1 : values <= 24 ? 3 : 2; }

// Values that a warp holds of the rows from `first` on. Rows past the last one are empty.
template <class T, int kValues, bool kWide, Form kForm>
struct RowGroup {
  using Row = cuda::LaneValues<T, kValues, kWide>;
  static constexpr bool kResidual = adds_residual(kForm);
  static constexpr int kRows = rows_together(kValues, kResidual);
  static constexpr int kRun = Row::kRun;
  Row x[kRows];
  Moments m[kRows];

  __device__ __forceinline__ void load(const Forward<T>& a, std::int64_t first, int lane) {
    Row branch[kResidual ? kRows : 1];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int columns = first + r < a.rows ? static_cast<int>(a.channels) : 0;
      x[r].load(a.x + (first + r) * a.channels, lane, columns);
      if constexpr (kResidual) branch[r].load(a.branch + (first + r) * a.channels, lane, columns);
    }
    if constexpr (kResidual) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (first + r < a.rows) add_branch(a, first + r, lane, branch[r], x[r]);
      }
    }
  }

  // Replaces x by the rounded sum and stores the sum.
  static __device__ __forceinline__ void add_branch(const Forward<T>& a, std::int64_t row, int lane,
                                                    const Row& branch, Row& x) {
    const int channels = static_cast<int>(a.channels);
    const float scale = kForm == Form::kGated ? 0.0f : a.scale_of(row);
#pragma unroll
    for (int i = 0; i < kValues; i += kRun) {
      const int c = Row::column(lane, i);
      float factor[kRun], sum[kRun];
#pragma unroll
      for (int k = 0; k < kRun; ++k) factor[k] = scale;
      if constexpr (kForm == Form::kGated) {
        if (c < channels) Row::load_float_run(a.gate_of(row) + c, factor);
      }
#pragma unroll
      for (int k = 0; k < kRun; ++k) sum[k] = fmaf(factor[k], branch[i + k], x[i + k]);
      x.set_run(i, sum);
      if (c < channels) Row::store_run(a.sum + row * a.channels + c, sum);
    }
  }

  __device__ __forceinline__ void find_moments(const Forward<T>& a, int lane) {
    const int channels = static_cast<int>(a.channels);
    float rough[kRows] = {}, rest[kRows] = {}, squares[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) rough[r] += x[r][i];
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) rough[r] = a.mean_of(cuda::warp_sum(rough[r]));
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        const float d = Row::column(lane, i) < channels ? x[r][i] - rough[r] : 0.0f;
        rest[r] += d;
        squares[r] = fmaf(d, d, squares[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      m[r] = moments(rough[r], a.mean_of(cuda::warp_sum(rest[r])),
                     a.mean_of(cuda::warp_sum(squares[r])), a.eps);
    }
  }

  __device__ __forceinline__ void write(const Forward<T>& a, std::int64_t first, int lane) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (lane != 0 || first + r >= a.rows) continue;
      store_moments<kForm>(a, first + r, x[r][0], m[r]);
    }
    const int channels = static_cast<int>(a.channels);
    std::int64_t parameters[kRows] = {};
    if constexpr (is_by_sets(kForm)) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (first + r < a.rows) parameters[r] = a.parameters_of(first + r);
      }
    }
    // One run at a time, so that few parameters are in registers at once.
#pragma unroll
    for (int i = 0; i < kValues; i += kRun) {
      const int c = Row::column(lane, i);
      if (c >= channels) continue;
      float weight[kRun], bias[kRun];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (first + r >= a.rows) continue;
        if constexpr (is_by_sets(kForm)) {
          load_gains<Row>(a.weight, a.sets, parameters[r] + c, weight);
          load_parameters<Row>(a.bias, parameters[r] + c, 0, bias);
        } else if (r == 0) {
          Row::load_float_run(a.weight + c, weight);
          Row::load_float_run(a.bias + c, bias);
        }
        float y[kRun];
#pragma unroll
        for (int k = 0; k < kRun; ++k) {
          y[k] = fmaf(m[r].normalized(x[r][i + k]), weight[k], bias[k]);
        }
        Row::store_run(a.y + (first + r) * a.channels + c, y);
      }
    }
  }
};

// Blocks: rows / (kWarps kRows).
template <class T, int kValues, bool kWide, Form kForm>
__global__ void __launch_bounds__(kThreads, resident_blocks(kValues, kWide))
    layer_norm_forward_kernel(Forward<T> a) {
  using Group = RowGroup<T, kValues, kWide, kForm>;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kWarps + warp) * Group::kRows;
  if (first >= a.rows) return;  // the whole warp returns
  Group group;
  group.load(a, first, lane);
  group.find_moments(a, lane);
  group.write(a, first, lane);
}

// Long rows, one block per row. In every pass a thread owns the columns c = thread mod kThreads, so
// threads exchange only the sums.
template <class T, Form kForm>
__global__ void __launch_bounds__(kThreads) layer_norm_forward_long_kernel(Forward<T> a) {
  DTN_SHARED(float, shared);
  const std::int64_t row = blockIdx.x, first = row * a.channels;
  const T* x = a.x + first;
  float sum = 0;
  if constexpr (adds_residual(kForm)) {
    T* to = a.sum + first;
    const float* gate = kForm == Form::kGated ? a.gate_of(row) : nullptr;
    const float scale = kForm == Form::kGated ? 0.0f : a.scale_of(row);
    for (std::int64_t c = threadIdx.x; c < a.channels; c += kThreads) {
      to[c] = cuda::from_float<T>(
          fmaf(gate ? gate[c] : scale, cuda::to_float(a.branch[first + c]), cuda::to_float(x[c])));
      sum += cuda::to_float(to[c]);
    }
    x = to;
  } else {
    for (std::int64_t c = threadIdx.x; c < a.channels; c += kThreads) sum += cuda::to_float(x[c]);
  }
  const float rough = a.mean_of(cuda::block_sum(sum, shared));
  float rest = 0, squares = 0;
  for (std::int64_t c = threadIdx.x; c < a.channels; c += kThreads) {
    const float d = cuda::to_float(x[c]) - rough;
    rest += d;
    squares = fmaf(d, d, squares);
  }
  const float delta = a.mean_of(cuda::block_sum(rest, shared));
  const Moments m = moments(rough, delta, a.mean_of(cuda::block_sum(squares, shared)), a.eps);
  if (threadIdx.x == 0) store_moments<kForm>(a, row, cuda::to_float(x[0]), m);
  const std::int64_t parameters = is_by_sets(kForm) ? a.parameters_of(row) : 0;
  for (std::int64_t c = threadIdx.x; c < a.channels; c += kThreads) {
    const float weight = gain_at(a.weight, a.sets, parameters + c);
    const float bias = a.bias ? a.bias[parameters + c] : 0.0f;
    a.y[first + c] = cuda::from_float<T>(fmaf(m.normalized(cuda::to_float(x[c])), weight, bias));
  }
}

template <Form kForm, class T>
void forward(CudaQueue& queue, const char* name, const Forward<T>& a) {
  const KernelName kernel{name, {a.rows, a.channels}};
  const bool wide =
      rows_are_wide<T>(a.channels, {a.x, a.branch, a.sum, a.y, a.weight, a.bias, a.gate}) &&
      a.sets.stride % 4 == 0;
  if (!is_held(a.channels, wide)) {
    launch(queue, kernel, layer_norm_forward_long_kernel<T, kForm>,
           {blocks_for(a.rows, 1), kThreads, kWarps * sizeof(float)}, a);
    return;
  }
  for_held_row(a.channels, wide, [&](auto values, auto is_wide) {
    constexpr int kRows = RowGroup<T, values, is_wide, kForm>::kRows;
    launch(queue, kernel, layer_norm_forward_kernel<T, values, is_wide, kForm>,
           {blocks_for(a.rows, kWarps * kRows), kThreads}, a);
  });
}

}  // namespace

void run(CudaQueue& queue, const LayerNormForward& args) {
  for_cuda_dtype("layer_norm_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0 || args.channels == 0) return;
    Forward<T> a{};
    a.rows = args.rows, a.channels = args.channels;
    a.inverse_channels = 1.0f / static_cast<float>(args.channels);
    a.eps = static_cast<float>(args.eps);
    a.x = static_cast<const T*>(args.residual ? args.residual : args.x);
    a.branch = static_cast<const T*>(args.branch);
    a.row_scale = static_cast<const float*>(args.row_scale);
    a.rows_per_scale = args.rows_per_scale;
    a.gate = static_cast<const float*>(args.gate);
    a.sum = static_cast<T*>(args.sum);
    a.weight = static_cast<const float*>(args.weight);
    a.bias = static_cast<const float*>(args.bias);
    a.y = static_cast<T*>(args.y);
    a.mean = static_cast<float*>(args.mean);
    a.rstd = static_cast<float*>(args.rstd);
    a.sets = args.sets;
    a.row_mean = static_cast<float*>(args.row_mean);
    a.row_std = static_cast<float*>(args.row_std);
    const bool by_sets = a.sets.rows > 0 || a.row_mean || a.row_std || !a.weight || !a.bias;
    if (args.residual) {
      check_residual(args);
      if (args.gate) return forward<Form::kGated>(queue, "gated_layer_norm_forward", a);
      return forward<Form::kResidual>(queue, "residual_layer_norm_forward", a);
    }
    if (by_sets) return forward<Form::kBySets>(queue, "layer_norm_forward by sets", a);
    forward<Form::kPlain>(queue, "layer_norm_forward", a);
  });
}

}  // namespace dtn
