// Gains and shifts of elements, samples and rows; see modulate.h. Elementwise kernels pass over
// memory once, in vectors. A warp computes the sum over a row. A block computes the sums over the
// tokens of a sample, for a tile of channels: `lanes` adjacent threads each read 16 bytes of a
// token. The groups of `lanes` threads take the tokens in turn, and their sums are added in shared
// memory, in order.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/pointwise/modulate.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / cuda::kWarpSize;

template <class T, class Index>
struct ModulateMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 1, kInputs = 3;
  const T *x, *modulation;
  T* y;
  std::int64_t channels;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[3][n]) const {
    const cuda::RowColumn at = cuda::row_and_column<Index>(i, channels);
    const T* shift = modulation + at.row * 2 * channels + at.column;
    cuda::load_values(x + i, v[0]);
    cuda::load_values(shift, v[1]);
    cuda::load_values(shift + channels, v[2]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[3][n]) const {
    for (int k = 0; k < n; ++k) v[0][k] = fmaf(v[0][k], v[2][k], v[0][k]) + v[1][k];
    cuda::store_values(y + i, v[0]);
  }
};

// One vector per thread, so that store() can load its own inputs.
template <class T, class Index>
struct ModulateBackwardMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 1, kInputs = 1;
  const T *x, *modulation, *dy, *dx_add;
  T *dx, *dmodulation;
  std::int64_t channels;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[1][n]) const {
    cuda::load_values(dy + i, v[0]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[1][n]) const {
    const cuda::RowColumn at = cuda::row_and_column<Index>(i, channels);
    const std::int64_t shift = at.row * 2 * channels + at.column, gain = shift + channels;
    float values[n], gains[n] = {}, add[n] = {};
    if (dx) cuda::load_values(modulation + gain, gains);
    if (dx_add) cuda::load_values(dx_add + i, add);
    if (dmodulation) {
      cuda::load_values(x + i, values);
      for (int k = 0; k < n; ++k) values[k] *= v[0][k];
      cuda::store_values(dmodulation + shift, v[0]);
      cuda::store_values(dmodulation + gain, values);
    }
    if (!dx) return;
    for (int k = 0; k < n; ++k) values[k] = fmaf(v[0][k], gains[k], v[0][k]) + add[k];
    cuda::store_values(dx + i, values);
  }
};

template <class T, class Index>
struct GateMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 3;
  const T *x, *residual;
  const float* gain;
  T* y;
  std::int64_t per_sample, channels;  // per_sample: elements of a sample

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[3][n]) const {
    const std::int64_t sample = cuda::row_and_column<Index>(i, per_sample).row;
    const std::int64_t channel = cuda::row_and_column<Index>(i, channels).column;
    cuda::load_values(x + i, v[0]);
    cuda::load_values(gain + sample * channels + channel, v[1]);
    for (int k = 0; k < n; ++k) v[2][k] = 0;
    if (residual) cuda::load_values(residual + i, v[2]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[3][n]) const {
    for (int k = 0; k < n; ++k) v[0][k] = fmaf(v[0][k], v[1][k], v[2][k]);
    cuda::store_values(y + i, v[0]);
  }
};

template <class T, class Index>
struct ModulateSamplesMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 3;
  const T* x;
  const float* modulation;
  T* y;
  std::int64_t per_sample, channels;  // per_sample: elements of a sample

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[3][n]) const {
    const std::int64_t sample = cuda::row_and_column<Index>(i, per_sample).row;
    const std::int64_t channel = cuda::row_and_column<Index>(i, channels).column;
    const float* shift = modulation + sample * 2 * channels + channel;
    cuda::load_values(x + i, v[0]);
    cuda::load_values(shift, v[1]);
    cuda::load_values(shift + channels, v[2]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[3][n]) const {
    for (int k = 0; k < n; ++k) v[0][k] = fmaf(v[0][k], v[2][k], v[0][k]) + v[1][k];
    cuda::store_values(y + i, v[0]);
  }
};

// Backward pass of a gate, or of a modulation.
template <class T>
struct SampleSums {
  const T *x, *dy;
  const T* dx_add;    // null: 0
  const float* gain;  // the gates or scales of the first sample
  T* dx;
  float* sums;  // [B, outputs, C]: dgate; or dshift and dscale; null: not computed
  std::int64_t tokens, channels;
  std::int64_t gain_stride;  // between the gains of samples
  std::int64_t tiles;        // of `lanes` vectors of channels
  int lanes;
};

constexpr int outputs_of(bool modulates) { return modulates ? 2 : 1; }

// Computes dx of a vector of a token, and adds to its sums: of dy x, or of dy and dy x.
template <bool kModulates, int n, class T>
__device__ __forceinline__ void add_token(const SampleSums<T>& a, std::int64_t i,
                                          const float (&gain)[n],
                                          float (&sum)[outputs_of(kModulates)][n]) {
  float x[n] = {}, dy[n], add[n] = {};
  if (a.sums) cuda::load_values(a.x + i, x);
  cuda::load_values(a.dy + i, dy);
  if constexpr (kModulates) {
    if (a.dx_add) cuda::load_values(a.dx_add + i, add);
  }
#pragma unroll
  for (int k = 0; k < n; ++k) {
    float& of_product = sum[outputs_of(kModulates) - 1][k];
    of_product = fmaf(x[k], dy[k], of_product);
    if constexpr (kModulates) {
      sum[0][k] += dy[k];
      dy[k] = fmaf(dy[k], gain[k], dy[k]) + add[k];
    } else {
      dy[k] *= gain[k];
    }
  }
  if (a.dx) cuda::store_values(a.dx + i, dy);
}

// Blocks: [sample, tile].
template <bool kModulates, int n, class T>
__global__ void __launch_bounds__(kThreads) sample_backward_kernel(SampleSums<T> a) {
  DTN_SHARED(float, shared);  // [groups, lanes n]
  constexpr int kOutputs = outputs_of(kModulates);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % a.lanes, group = thread / a.lanes, groups = kThreads / a.lanes;
  const std::int64_t sample = blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles;
  const std::int64_t channel = (tile * a.lanes + lane) * n;
  float sum[kOutputs][n] = {};
  if (channel < a.channels) {
    float gain[n];
    cuda::load_values(a.gain + sample * a.gain_stride + channel, gain);
    const std::int64_t first = sample * a.tokens * a.channels + channel;
#pragma unroll 2
    for (std::int64_t t = group; t < a.tokens; t += groups) {
      add_token<kModulates>(a, first + t * a.channels, gain, sum);
    }
  }
  if (!a.sums) return;
  const int width = a.lanes * n;
#pragma unroll
  for (int output = 0; output < kOutputs; ++output) {
    if (output > 0) __syncthreads();  // the sums of the last output are read
    cuda::store_values(shared + thread * n, sum[output]);
    __syncthreads();
    for (int j = thread; j < width; j += kThreads) {
      const std::int64_t c = tile * width + j;
      if (c >= a.channels) break;
      float total = shared[j];
      for (int g = 1; g < groups; ++g) total += shared[g * width + j];
      a.sums[(sample * kOutputs + output) * a.channels + c] = total;
    }
  }
}

template <bool kModulates, class T>
void sample_backward(CudaQueue& queue, const char* name, std::int64_t batch, SampleSums<T> a,
                     bool wide) {
  if (batch == 0 || a.channels == 0 || (!a.dx && !a.sums)) return;
  auto with = [&](auto width) {
    constexpr int n = width;
    const std::int64_t vectors = a.channels / n;
    a.lanes = vectors > 16 ? 32 : vectors > 8 ? 16 : 8;
    a.tiles = (vectors + a.lanes - 1) / a.lanes;
    launch(queue, {name, {batch, a.tokens, a.channels}}, sample_backward_kernel<kModulates, n, T>,
           {blocks_for(batch * a.tiles, 1), kThreads, kThreads * n * sizeof(float)}, a);
  };
  if (wide) {
    with(std::integral_constant<int, cuda::kPerVector<T>>{});
  } else {
    with(std::integral_constant<int, 1>{});
  }
}

template <class T, class Index>
struct ScaleShiftRowsMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 1;
  const T* x;
  const float *gain, *shift;
  T* y;
  std::int64_t channels;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[1][n]) const {
    cuda::load_values(x + i, v[0]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[1][n]) const {
    const std::int64_t row = cuda::row_and_column<Index>(i, channels).row;
    for (int k = 0; k < n; ++k) v[0][k] = fmaf(v[0][k], gain[row], shift[row]);
    cuda::store_values(y + i, v[0]);
  }
};

// One warp per row. Blocks: rows / kWarps.
template <int n, class T>
__global__ void __launch_bounds__(kThreads)
    scale_shift_rows_backward_kernel(std::int64_t rows, std::int64_t channels, const T* x,
                                     const float* gains, const T* dy, T* dx, float* dgain,
                                     float* dshift) {
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / cuda::kWarpSize;
  if (row >= rows) return;  // the whole warp returns
  const float gain = gains[row];
  const std::int64_t first = row * channels;
  float sum = 0, dot = 0;
#pragma unroll 2
  for (std::int64_t c = lane * n; c < channels; c += cuda::kWarpSize * n) {
    float v[n], g[n];
    cuda::load_values(x + first + c, v);
    cuda::load_values(dy + first + c, g);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      sum += g[k];
      dot = fmaf(g[k], v[k], dot);
      g[k] *= gain;
    }
    if (dx) cuda::store_values(dx + first + c, g);
  }
  sum = cuda::warp_sum(sum);
  dot = cuda::warp_sum(dot);
  if (lane > 0) return;
  if (dgain) dgain[row] = dot;
  if (dshift) dshift[row] = sum;
}

// Returns true if rows of `channels` values at these addresses (or null) can be read in vectors.
template <class T, class... P>
bool is_wide(std::int64_t channels, const P*... places) {
  return (cuda::is_vectorizable<T>(places, channels) && ...);
}

}  // namespace

void run(CudaQueue& queue, const ModulateForward& args) {
  for_cuda_dtype("modulate_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = args.rows * args.channels;
    cuda::for_index(count, [&](auto index) {
      ModulateMap<T, decltype(index)> map{static_cast<const T*>(args.x),
                                          static_cast<const T*>(args.modulation),
                                          static_cast<T*>(args.y), args.channels};
      cuda::launch_map(queue, "modulate_forward", map, count,
                       is_wide<T>(args.channels, args.x, args.modulation, args.y));
    });
  });
}

void run(CudaQueue& queue, const ModulateBackward& args) {
  for_cuda_dtype("modulate_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = args.rows * args.channels;
    if (!args.dx && !args.dmodulation) return;
    cuda::for_index(count, [&](auto index) {
      ModulateBackwardMap<T, decltype(index)> map{};
      map.x = static_cast<const T*>(args.x);
      map.modulation = static_cast<const T*>(args.modulation);
      map.dy = static_cast<const T*>(args.dy);
      map.dx_add = static_cast<const T*>(args.dx_add);
      map.dx = static_cast<T*>(args.dx);
      map.dmodulation = static_cast<T*>(args.dmodulation);
      map.channels = args.channels;
      cuda::launch_map(queue, "modulate_backward", map, count,
                       is_wide<T>(args.channels, args.x, args.modulation, args.dy, args.dx_add,
                                  args.dx, args.dmodulation));
    });
  });
}

void run(CudaQueue& queue, const GateForward& args) {
  for_cuda_dtype("gate_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t per_sample = args.tokens * args.channels, count = args.batch * per_sample;
    if (count == 0) return;
    cuda::for_index(count, [&](auto index) {
      GateMap<T, decltype(index)> map{};
      map.x = static_cast<const T*>(args.x);
      map.residual = static_cast<const T*>(args.residual);
      map.gain = static_cast<const float*>(args.gain);
      map.y = static_cast<T*>(args.y);
      map.per_sample = per_sample;
      map.channels = args.channels;
      cuda::launch_map(queue, "gate_forward", map, count,
                       is_wide<T>(args.channels, args.x, args.residual, args.gain, args.y));
    });
  });
}

void run(CudaQueue& queue, const GateBackward& args) {
  for_cuda_dtype("gate_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    SampleSums<T> a{};
    a.x = static_cast<const T*>(args.x);
    a.dy = static_cast<const T*>(args.dy);
    a.gain = static_cast<const float*>(args.gain);
    a.dx = static_cast<T*>(args.dx);
    a.sums = static_cast<float*>(args.dgain);
    a.tokens = args.tokens, a.channels = args.channels, a.gain_stride = args.channels;
    sample_backward<false>(queue, "gate_backward", args.batch, a,
                           is_wide<T>(args.channels, args.x, args.dy, args.gain, args.dx));
  });
}

void run(CudaQueue& queue, const ModulateSamplesForward& args) {
  for_cuda_dtype("modulate_samples_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t per_sample = args.tokens * args.channels, count = args.batch * per_sample;
    if (count == 0) return;
    cuda::for_index(count, [&](auto index) {
      ModulateSamplesMap<T, decltype(index)> map{};
      map.x = static_cast<const T*>(args.x);
      map.modulation = static_cast<const float*>(args.modulation);
      map.y = static_cast<T*>(args.y);
      map.per_sample = per_sample;
      map.channels = args.channels;
      cuda::launch_map(queue, "modulate_samples_forward", map, count,
                       is_wide<T>(args.channels, args.x, args.modulation, args.y));
    });
  });
}

void run(CudaQueue& queue, const ModulateSamplesBackward& args) {
  for_cuda_dtype("modulate_samples_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    SampleSums<T> a{};
    a.x = static_cast<const T*>(args.x);
    a.dy = static_cast<const T*>(args.dy);
    a.dx_add = static_cast<const T*>(args.dx_add);
    a.gain = static_cast<const float*>(args.modulation) + args.channels;
    a.dx = static_cast<T*>(args.dx);
    a.sums = static_cast<float*>(args.dmodulation);
    a.tokens = args.tokens, a.channels = args.channels, a.gain_stride = 2 * args.channels;
    sample_backward<true>(
        queue, "modulate_samples_backward", args.batch, a,
        is_wide<T>(args.channels, args.x, args.dy, args.dx_add, args.modulation, args.dx));
  });
}

void run(CudaQueue& queue, const ScaleShiftRowsForward& args) {
  for_cuda_dtype("scale_shift_rows_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = args.rows * args.channels;
    cuda::for_index(count, [&](auto index) {
      ScaleShiftRowsMap<T, decltype(index)> map{};
      map.x = static_cast<const T*>(args.x);
      map.gain = static_cast<const float*>(args.gain);
      map.shift = static_cast<const float*>(args.shift);
      map.y = static_cast<T*>(args.y);
      map.channels = args.channels;
      cuda::launch_map(queue, "scale_shift_rows_forward", map, count,
                       is_wide<T>(args.channels, args.x, args.y));
    });
  });
}

void run(CudaQueue& queue, const ScaleShiftRowsBackward& args) {
  for_cuda_dtype("scale_shift_rows_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0) return;
    auto with = [&](auto kernel) {
      launch(queue, {"scale_shift_rows_backward", {args.rows, args.channels}}, kernel,
             {blocks_for(args.rows, kWarps), kThreads}, args.rows, args.channels,
             static_cast<const T*>(args.x), static_cast<const float*>(args.gain),
             static_cast<const T*>(args.dy), static_cast<T*>(args.dx),
             static_cast<float*>(args.dgain), static_cast<float*>(args.dshift));
    };
    if (is_wide<T>(args.channels, args.x, args.dy, args.dx)) {
      with(scale_shift_rows_backward_kernel<cuda::kPerVector<T>, T>);
    } else {
      with(scale_shift_rows_backward_kernel<1, T>);
    }
  });
}

}  // namespace dtn
