// Attention on CUDA cores in which each token may see other tokens. One warp computes one token,
// with the columns across its lanes. It walks over the tokens that its token sees. For the
// gradients of its key and value, it walks over the tokens that see its token. Scores are not
// stored, every sum has one order, and no two warps write the same place. A View defines which
// tokens a token sees:
//    int count(image)                        number of valid positions; they come first
//    void keys(image, head, i, count, f)     calls f(j) for each key that position i sees, twice if
//                                            the key counts twice
//    void queries(image, head, j, count, f)  calls f(i) for each query that sees position j
//    float zero_keys(head, i)                number of extra keys with score 0 and value 0
//    float factor(image, head, j)            factor of the scores of key j
//    float kept(image, head, i, j)           factor of a weight after the softmax
#pragma once

#include "kernels/attention/attention_device.cuh"
#include "kernels/cuda/reduce.cuh"

namespace dtn::attention {

inline constexpr int kRowWarps = 4;  // per block
inline constexpr int kRowThreads = kRowWarps * cuda::kWarpSize;

// The arrays of a call. Inputs [B, T, .., H, D] have rows `in_stride` apart. Outputs have rows
// `out_stride` and heads `head_stride` apart. Positions from T on are rows of zeros, and so are
// positions whose output would lie past the end of the image.
template <class T>
struct RowArrays {
  int tokens, positions, heads, dim;  // T, computed positions, H, D
  std::int64_t in_stride, out_stride, head_stride;
  float scale;
  const T *q, *k, *v;
  T* out;
  float* lse;          // [B, H, positions]
  const T* dout;       // backward
  const float* delta;  // [B, H, positions]: sum of dout out
  // dk null: dk is added to dq, after the gradient of the keys' normalization if there is one
  T *dq, *dk, *dv;
  bool normalized;  // keys are normalized: factor() is 1 / |k|

  __device__ __forceinline__ std::int64_t in(int image, int head, int row) const {
    return (static_cast<std::int64_t>(image) * tokens + row) * in_stride + head * dim;
  }
  // Negative if the row has no output.
  __device__ __forceinline__ std::int64_t at_out(int image, int head, int row) const {
    const std::int64_t image_size = static_cast<std::int64_t>(tokens) * heads * dim;
    const std::int64_t in_image = head * head_stride + row * out_stride;
    return in_image < image_size ? image * image_size + in_image : -1;
  }
  __device__ __forceinline__ std::int64_t row(int image, int head, int i) const {
    return (static_cast<std::int64_t>(image) * heads + head) * positions + i;
  }
};

// Arrays for args.qkv [B, T, 3, H, D], args.out [B, T, H, D] and args.lse [B, H, T]; `p` has the
// sizes.
template <class T, class Args, class Sizes>
RowArrays<T> packed_arrays(const Args& args, const Sizes& p) {
  RowArrays<T> a{};
  a.tokens = a.positions = static_cast<int>(p.tokens);
  a.heads = static_cast<int>(p.heads);
  a.dim = static_cast<int>(p.head_dim);
  const std::int64_t width = p.heads * p.head_dim;
  a.in_stride = 3 * width, a.out_stride = width, a.head_stride = p.head_dim;
  a.scale = static_cast<float>(p.scale);
  a.q = static_cast<const T*>(args.qkv), a.k = a.q + width, a.v = a.k + width;
  a.out = static_cast<T*>(const_cast<void*>(args.out));
  a.lse = static_cast<float*>(const_cast<void*>(args.lse));
  return a;
}

// The token and head of a warp. Idle warps, past the last row, do nothing.
struct RowWarp {
  int image, head, position, lane;
  bool idle;
};
__device__ __forceinline__ RowWarp row_warp(int positions, int heads, std::int64_t rows) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kRowWarps +
                             static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const std::int64_t item = index / positions;
  return {static_cast<int>(item / heads), static_cast<int>(item % heads),
          static_cast<int>(index % positions), static_cast<int>(threadIdx.x) % cuda::kWarpSize,
          index >= rows};
}

// Loads columns lane, lane + 32, ... of a row; zeros past column dim or if the row does not exist.
template <int C, class T>
__device__ __forceinline__ void load_columns(float (&to)[C], const T* array, std::int64_t at,
                                             bool there, int dim, int lane) {
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int column = lane + c * cuda::kWarpSize;
    to[c] = there && column < dim ? cuda::to_float(array[at + column]) : 0.0f;
  }
}
template <int C, class T>
__device__ __forceinline__ void store_columns(T* array, std::int64_t at, const float (&from)[C],
                                              float factor, int dim, int lane) {
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int column = lane + c * cuda::kWarpSize;
    if (column < dim) array[at + column] = cuda::from_float<T>(from[c] * factor);
  }
}
template <int C>
__device__ __forceinline__ float dot_columns(const float (&a)[C], const float (&b)[C]) {
  float sum = 0;
#pragma unroll
  for (int c = 0; c < C; ++c) sum = fmaf(a[c], b[c], sum);
  return cuda::warp_sum(sum);
}
template <int C>
__device__ __forceinline__ void add_columns(float (&to)[C], float factor, const float (&from)[C]) {
#pragma unroll
  for (int c = 0; c < C; ++c) to[c] = fmaf(factor, from[c], to[c]);
}

template <class T, int C, class View>
__global__ void __launch_bounds__(kRowThreads)
    attention_rows_forward_kernel(RowArrays<T> a, View view, std::int64_t rows) {
  const RowWarp w = row_warp(a.positions, a.heads, rows);
  if (w.idle) return;
  const int count = view.count(w.image), i = w.position;
  const std::int64_t to = a.at_out(w.image, w.head, i);
  float acc[C] = {};
  if (i >= count) {
    if (to >= 0) store_columns<C>(a.out, to, acc, 0.0f, a.dim, w.lane);
    if (w.lane == 0) a.lse[a.row(w.image, w.head, i)] = 0;
    return;
  }
  float q[C], largest = -INFINITY, sum = 0;
  load_columns<C>(q, a.q, a.in(w.image, w.head, i), i < a.tokens, a.dim, w.lane);
  view.keys(w.image, w.head, i, count, [&](int j) {
    float k[C], v[C];
    const bool there = j < a.tokens;
    load_columns<C>(k, a.k, a.in(w.image, w.head, j), there, a.dim, w.lane);
    load_columns<C>(v, a.v, a.in(w.image, w.head, j), there, a.dim, w.lane);
    const float s = dot_columns<C>(q, k) * (a.scale * view.factor(w.image, w.head, j));
    const float top = cuda::max_or_nan(largest, s), shift = top == -INFINITY ? 0.0f : top;
    const float before = expf(largest - shift), p = expf(s - shift);
    largest = top;
    sum = fmaf(sum, before, p);
#pragma unroll
    for (int c = 0; c < C; ++c) acc[c] *= before;
    add_columns<C>(acc, p * view.kept(w.image, w.head, i, j), v);
  });
  if (const float zeros = view.zero_keys(w.head, i); zeros > 0) {
    const float top = cuda::max_or_nan(largest, 0.0f), before = expf(largest - top);
    sum = fmaf(sum, before, zeros * expf(-top));
    largest = top;
#pragma unroll
    for (int c = 0; c < C; ++c) acc[c] *= before;
  }
  const bool alone = sum == 0;  // the token sees only itself
  if (alone) load_columns<C>(acc, a.v, a.in(w.image, w.head, i), i < a.tokens, a.dim, w.lane);
  if (to >= 0) store_columns<C>(a.out, to, acc, alone ? 1.0f : 1 / sum, a.dim, w.lane);
  if (w.lane == 0) a.lse[a.row(w.image, w.head, i)] = alone ? INFINITY : largest + logf(sum);
}

template <class T, int C>
__global__ void __launch_bounds__(kRowThreads)
    attention_rows_delta_kernel(RowArrays<T> a, float* delta, std::int64_t rows) {
  const RowWarp w = row_warp(a.positions, a.heads, rows);
  if (w.idle) return;
  const std::int64_t at = a.at_out(w.image, w.head, w.position);
  float out[C], dout[C];
  load_columns<C>(out, a.out, at, at >= 0, a.dim, w.lane);
  load_columns<C>(dout, a.dout, at, at >= 0, a.dim, w.lane);
  const float sum = dot_columns<C>(out, dout);
  if (w.lane == 0) delta[a.row(w.image, w.head, w.position)] = sum;
}

// The terms of one query and one key: the weight in dv, and ds.
struct RowPair {
  float weight, ds;
};
template <class T, class View>
__device__ __forceinline__ RowPair row_pair(const RowArrays<T>& a, const View& view,
                                            const RowWarp& w, int i, int j, float score, float dp) {
  const std::int64_t row = a.row(w.image, w.head, i);
  const float p = expf(score - a.lse[row]), kept = view.kept(w.image, w.head, i, j);
  return {p * kept, p * (dp * kept - a.delta[row])};
}

template <class T, int C, class View>
__global__ void __launch_bounds__(kRowThreads)
    attention_rows_backward_kernel(RowArrays<T> a, View view, std::int64_t rows) {
  const RowWarp w = row_warp(a.positions, a.heads, rows);
  if (w.idle || w.position >= a.tokens) return;
  const int count = view.count(w.image), own = w.position;
  const std::int64_t at = a.in(w.image, w.head, own);
  float dq[C] = {}, dk[C] = {}, dv[C] = {};
  if (own < count) {
    float q[C], k[C], v[C], dout[C];
    load_columns<C>(q, a.q, at, true, a.dim, w.lane);
    load_columns<C>(k, a.k, at, true, a.dim, w.lane);
    load_columns<C>(v, a.v, at, true, a.dim, w.lane);
    const std::int64_t of_out = a.at_out(w.image, w.head, own);
    load_columns<C>(dout, a.dout, of_out, of_out >= 0, a.dim, w.lane);
    view.keys(w.image, w.head, own, count, [&](int j) {
      float key[C], value[C];
      const bool there = j < a.tokens;
      load_columns<C>(key, a.k, a.in(w.image, w.head, j), there, a.dim, w.lane);
      load_columns<C>(value, a.v, a.in(w.image, w.head, j), there, a.dim, w.lane);
      const float factor = view.factor(w.image, w.head, j);
      const RowPair pair = row_pair(a, view, w, own, j, dot_columns<C>(q, key) * (a.scale * factor),
                                    dot_columns<C>(dout, value));
      add_columns<C>(dq, pair.ds * factor, key);
    });
    const float factor = view.factor(w.image, w.head, own);
    view.queries(w.image, w.head, own, count, [&](int i) {
      float query[C], dquery[C];
      load_columns<C>(query, a.q, a.in(w.image, w.head, i), i < a.tokens, a.dim, w.lane);
      const std::int64_t from = a.at_out(w.image, w.head, i);
      load_columns<C>(dquery, a.dout, from, from >= 0, a.dim, w.lane);
      const RowPair pair =
          row_pair(a, view, w, i, own, dot_columns<C>(query, k) * (a.scale * factor),
                   dot_columns<C>(dquery, v));
      add_columns<C>(dv, pair.weight, dquery);
      add_columns<C>(dk, pair.ds, query);
    });
    if (a.normalized) {  // (dn - n (n . dn)) / |k| with n = k / |k|
      const float along = dot_columns<C>(k, dk) * factor * factor;
#pragma unroll
      for (int c = 0; c < C; ++c) dk[c] = (dk[c] - k[c] * along) * factor;
    }
    if (a.lse[a.row(w.image, w.head, own)] == INFINITY) {
#pragma unroll
      for (int c = 0; c < C; ++c) dv[c] += dout[c];
    }
  }
  if (!a.dk) {
#pragma unroll
    for (int c = 0; c < C; ++c) dq[c] += dk[c];
  } else {
    store_columns<C>(a.dk, at, dk, a.scale, a.dim, w.lane);
  }
  store_columns<C>(a.dq, at, dq, a.scale, a.dim, w.lane);
  store_columns<C>(a.dv, at, dv, 1.0f, a.dim, w.lane);
}

// Calls f(T{}, integral constant C) for the input's type and 32 C >= head_dim.
template <class F>
void for_rows(const char* name, DType dtype, std::int64_t head_dim, F&& f) {
  DTN_CHECK(head_dim <= kMaxPlainDim, name, ": heads of ", head_dim,
            " channels; CUDA devices take up to ", kMaxPlainDim);
  for_cuda_dtype(name, dtype, [&](auto zero) {
    if (head_dim <= 64) return f(zero, std::integral_constant<int, 2>{});
    f(zero, std::integral_constant<int, 8>{});
  });
}

template <class T>
LaunchShape row_launch(std::int64_t rows) {
  return {blocks_for(rows, kRowWarps), kRowThreads, 0};
}

template <int C, class T, class View>
void rows_forward(CudaQueue& queue, const char* name, const RowArrays<T>& arrays, const View& view,
                  std::int64_t batch) {
  const std::int64_t rows = batch * arrays.heads * arrays.positions;
  launch(queue, {name, {batch, arrays.tokens, arrays.heads, arrays.dim}},
         attention_rows_forward_kernel<T, C, View>, row_launch<T>(rows), arrays, view, rows);
}

template <int C, class T, class View>
void rows_backward(CudaQueue& queue, const char* name, RowArrays<T> arrays, const View& view,
                   std::int64_t batch) {
  const std::int64_t rows = batch * arrays.heads * arrays.positions;
  const KernelName launched{name, {batch, arrays.tokens, arrays.heads, arrays.dim}};
  auto delta = queue.scratch<float>(rows);
  launch(queue, launched, attention_rows_delta_kernel<T, C>, row_launch<T>(rows), arrays,
         delta.get(), rows);
  arrays.delta = delta.get();
  launch(queue, launched, attention_rows_backward_kernel<T, C, View>, row_launch<T>(rows), arrays,
         view, rows);
}

}  // namespace dtn::attention
