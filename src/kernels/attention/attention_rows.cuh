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
#include "kernels/attention/lane_row.cuh"

namespace dtn::attention {

inline constexpr int kRowWarps = 4;  // per block
inline constexpr int kRowThreads = kRowWarps * cuda::kWarpSize;

// The simplest view: each token sees all valid tokens of its sample.
struct SampleView {
  const std::int64_t* lengths;  // [B]; null: all tokens are valid
  int tokens;

  __device__ __forceinline__ int count(int image) const {
    return lengths ? static_cast<int>(lengths[image]) : tokens;
  }
  template <class F>
  __device__ __forceinline__ void keys(int, int, int, int count, const F& f) const {
    for (int j = 0; j < count; ++j) f(j);
  }
  template <class F>
  __device__ __forceinline__ void queries(int, int, int, int count, const F& f) const {
    for (int i = 0; i < count; ++i) f(i);
  }
  __device__ __forceinline__ float zero_keys(int, int) const { return 0; }
  __device__ __forceinline__ float factor(int, int, int) const { return 1; }
  __device__ __forceinline__ float kept(int, int, int, int) const { return 1; }
};

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

// Arrays for args.qkv [B, T, 3, H, D], args.out [B, T, H, D] and args.lse [B, H, T].
template <class T, class Args>
RowArrays<T> packed_arrays(const Args& args) {
  RowArrays<T> a{};
  a.tokens = a.positions = static_cast<int>(args.tokens);
  a.heads = static_cast<int>(args.heads);
  a.dim = static_cast<int>(args.head_dim);
  const std::int64_t width = args.heads * args.head_dim;
  a.in_stride = 3 * width, a.out_stride = width, a.head_stride = args.head_dim;
  a.scale = static_cast<float>(args.scale);
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

template <class T, int C, class View>
__global__ void __launch_bounds__(kRowThreads)
    attention_rows_forward_kernel(RowArrays<T> a, View view, std::int64_t rows) {
  const RowWarp w = row_warp(a.positions, a.heads, rows);
  if (w.idle) return;
  const int count = view.count(w.image), i = w.position;
  const std::int64_t to = a.at_out(w.image, w.head, i);
  LaneRow<C> acc{};
  if (i >= count) {
    if (to >= 0) acc.store(a.out + to, a.dim);
    if (w.lane == 0) a.lse[a.row(w.image, w.head, i)] = 0;
    return;
  }
  LaneRow<C> q;
  float largest = -INFINITY, sum = 0;
  q.load(a.q + a.in(w.image, w.head, i), a.dim, i < a.tokens);
  view.keys(w.image, w.head, i, count, [&](int j) {
    LaneRow<C> k, v;
    const bool there = j < a.tokens;
    k.load(a.k + a.in(w.image, w.head, j), a.dim, there);
    v.load(a.v + a.in(w.image, w.head, j), a.dim, there);
    const float s = q.dot(k) * (a.scale * view.factor(w.image, w.head, j));
    const float top = cuda::max_or_nan(largest, s), shift = top == -INFINITY ? 0.0f : top;
    const float before = expf(largest - shift), p = expf(s - shift);
    largest = top;
    sum = fmaf(sum, before, p);
    acc.scale(before);
    acc.add(p * view.kept(w.image, w.head, i, j), v);
  });
  if (const float zeros = view.zero_keys(w.head, i); zeros > 0) {
    const float top = cuda::max_or_nan(largest, 0.0f), before = expf(largest - top);
    sum = fmaf(sum, before, zeros * expf(-top));
    largest = top;
    acc.scale(before);
  }
  const bool alone = sum == 0;  // the token sees only itself
  if (alone) acc.load(a.v + a.in(w.image, w.head, i), a.dim, i < a.tokens);
  if (to >= 0) acc.store(a.out + to, a.dim, alone ? 1.0f : 1 / sum);
  if (w.lane == 0) a.lse[a.row(w.image, w.head, i)] = alone ? INFINITY : largest + logf(sum);
}

template <class T, int C>
__global__ void __launch_bounds__(kRowThreads)
    attention_rows_delta_kernel(RowArrays<T> a, float* delta, std::int64_t rows) {
  const RowWarp w = row_warp(a.positions, a.heads, rows);
  if (w.idle) return;
  const std::int64_t at = a.at_out(w.image, w.head, w.position);
  LaneRow<C> out, dout;
  out.load(a.out + at, a.dim, at >= 0);
  dout.load(a.dout + at, a.dim, at >= 0);
  const float sum = out.dot(dout);
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
  LaneRow<C> dq{}, dk{}, dv{};
  if (own < count) {
    LaneRow<C> q, k, v, dout;
    q.load(a.q + at, a.dim);
    k.load(a.k + at, a.dim);
    v.load(a.v + at, a.dim);
    const std::int64_t of_out = a.at_out(w.image, w.head, own);
    dout.load(a.dout + of_out, a.dim, of_out >= 0);
    view.keys(w.image, w.head, own, count, [&](int j) {
      LaneRow<C> key, value;
      const bool there = j < a.tokens;
      key.load(a.k + a.in(w.image, w.head, j), a.dim, there);
      value.load(a.v + a.in(w.image, w.head, j), a.dim, there);
      const float factor = view.factor(w.image, w.head, j);
      const RowPair pair =
          row_pair(a, view, w, own, j, q.dot(key) * (a.scale * factor), dout.dot(value));
      dq.add(pair.ds * factor, key);
    });
    const float factor = view.factor(w.image, w.head, own);
    view.queries(w.image, w.head, own, count, [&](int i) {
      LaneRow<C> query, dquery;
      query.load(a.q + a.in(w.image, w.head, i), a.dim, i < a.tokens);
      const std::int64_t from = a.at_out(w.image, w.head, i);
      dquery.load(a.dout + from, a.dim, from >= 0);
      const RowPair pair =
          row_pair(a, view, w, i, own, query.dot(k) * (a.scale * factor), dquery.dot(v));
      dv.add(pair.weight, dquery);
      dk.add(pair.ds, query);
    });
    if (a.normalized) {  // (dn - n (n . dn)) / |k| with n = k / |k|
      const float along = k.dot(dk) * factor * factor;
#pragma unroll
      for (int c = 0; c < C; ++c) {
        dk.values[c] = (dk.values[c] - k.values[c] * along) * factor;
      }
    }
    if (a.lse[a.row(w.image, w.head, own)] == INFINITY) dv.add(1, dout);
  }
  if (!a.dk) {
    dq.add(1, dk);
  } else {
    dk.store(a.dk + at, a.dim, a.scale);
  }
  dq.store(a.dq + at, a.dim, a.scale);
  dv.store(a.dv + at, a.dim);
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
