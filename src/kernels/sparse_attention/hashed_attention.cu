// Hashed attention on CUDA devices. One warp per position finds its buckets, and one warp per head
// and round sorts them. Then tiles of sorted positions run on the tensor cores
// (hashed_attention_tiles.cuh). In float32, in the variant lra and with several rounds, one warp
// per position walks over its chunks instead.
#include "kernels/attention/attention_rows.cuh"
#include "kernels/sparse_attention/hashed_attention.h"
#include "kernels/sparse_attention/hashed_attention_tiles.h"

namespace dtn {
namespace attention {
namespace {

struct HashedView : SampleView {  // without lengths in the variant lra
  const std::int64_t* order;      // [B, H, R, N]
  const int* place;               // [B, H, R, N]: index of a position in the order
  const float* inverse_norm;      // [B, H, N], for keys; null: 1
  int positions, heads, hashes, buckets, chunk;
  bool lra;

  __device__ __forceinline__ int count(int image) const {
    return lra ? positions : SampleView::count(image);
  }
  __device__ __forceinline__ std::int64_t row(int image, int head, int round) const {
    return ((static_cast<std::int64_t>(image) * heads + head) * hashes + round) * positions;
  }
  // Calls f for the positions of a chunk; without `self`, except in the variant lra.
  template <class F>
  __device__ __forceinline__ void in_chunk(int image, int head, int round, int c, int count,
                                           int self, const F& f) const {
    const std::int64_t* sorted = order + row(image, head, round);
    const int end = (c + 1) * chunk < count ? (c + 1) * chunk : count;
    for (int k = c * chunk; k < end; ++k) {
      const int j = static_cast<int>(sorted[k]);
      if (j != self || lra) f(j);
    }
  }
  template <class F>
  __device__ __forceinline__ void keys(int image, int head, int i, int count, const F& f) const {
    for (int r = 0; r < hashes; ++r) {
      const int c = place[row(image, head, r) + i] / chunk;
      const int before = r == 0 ? hashes - 1 : r - 1;
      in_chunk(image, head, c > 0 ? r : before, c > 0 ? c - 1 : buckets - 1, count, i, f);
      in_chunk(image, head, r, c, count, i, f);
    }
  }
  template <class F>
  __device__ __forceinline__ void queries(int image, int head, int j, int count, const F& f) const {
    for (int r = 0; r < hashes; ++r) {
      const int c = place[row(image, head, r) + j] / chunk;
      const int next = r == hashes - 1 ? 0 : r + 1;
      in_chunk(image, head, r, c, count, j, f);
      const bool inside = c + 1 < buckets;
      in_chunk(image, head, inside ? r : next, inside ? c + 1 : 0, count, j, f);
    }
  }
  __device__ __forceinline__ float factor(int image, int head, int j) const {
    if (!inverse_norm) return 1;
    return inverse_norm[(static_cast<std::int64_t>(image) * heads + head) * positions + j];
  }
};

template <class T, int C>
__global__ void __launch_bounds__(kRowThreads)
    hashed_attention_norms_kernel(RowArrays<T> a, HashedView view, float* inverse_norm,
                                  std::int64_t rows) {
  const RowWarp w = row_warp(a.positions, a.heads, rows);
  if (w.idle || w.position >= view.count(w.image)) return;
  LaneRow<C> k;
  k.load(a.k + a.in(w.image, w.head, w.position), a.dim, w.position < a.tokens);
  const float squares = k.dot(k);
  if (w.lane == 0) {
    inverse_norm[a.row(w.image, w.head, w.position)] = squares == 0 ? 0.0f : 1 / sqrtf(squares);
  }
}

template <class T, int C>
__global__ void __launch_bounds__(kRowThreads)
    hashed_attention_buckets_kernel(RowArrays<T> a, HashedView view, const float* rotations,
                                    int* bucket, std::int64_t rows) {
  const RowWarp w = row_warp(a.positions, a.heads, rows);
  if (w.idle || w.position >= view.count(w.image)) return;
  const int half = view.buckets / 2, directions = view.hashes * half;
  LaneRow<C> q;
  q.load(a.q + a.in(w.image, w.head, w.position), a.dim, w.position < a.tokens);
  for (int r = 0; r < view.hashes; ++r) {
    int best = 0, opposite = 0;
    float top = -INFINITY, bottom = INFINITY;
    for (int j = 0; j < half; ++j) {
      float z = 0;
#pragma unroll
      for (int c = 0; c < C; ++c) {
        const int d = q.column(c);
        if (d < a.dim) z = fmaf(q.values[c], rotations[d * directions + r * half + j], z);
      }
      z = cuda::warp_sum(z);
      if (z > top) top = z, best = j;
      if (z < bottom) bottom = z, opposite = j;
    }
    if (w.lane == 0) {
      bucket[view.row(w.image, w.head, r) + w.position] = -bottom > top ? half + opposite : best;
    }
  }
}

// A warp sorts one round of a head, bucket by bucket, in the order of positions.
__global__ void __launch_bounds__(cuda::kWarpSize)
    hashed_attention_sort_kernel(HashedView view, const int* bucket, std::int64_t* order,
                                 int* place) {
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * view.positions;
  const int count = view.count(static_cast<int>(blockIdx.x) / (view.heads * view.hashes));
  int next = 0;
  for (int b = 0; b < view.buckets; ++b) {
    for (int first = 0; first < count; first += cuda::kWarpSize) {
      const int i = first + lane;
      const bool here = i < count && bucket[row + i] == b;
      int before = here ? 1 : 0;  // becomes their number up to this lane
#pragma unroll
      for (int offset = 1; offset < cuda::kWarpSize; offset *= 2) {
        const int lower = __shfl_up_sync(cuda::kWholeWarp, before, offset);
        if (lane >= offset) before += lower;
      }
      if (here) {
        order[row + next + before - 1] = i;
        place[row + i] = next + before - 1;
      }
      next += __shfl_sync(cuda::kWholeWarp, before, cuda::kWarpSize - 1);
    }
  }
}

__global__ void __launch_bounds__(kRowThreads)
    hashed_attention_places_kernel(HashedView view, int* place, std::int64_t entries) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kRowThreads + threadIdx.x;
  if (at >= entries) return;
  const std::int64_t row = at / view.positions;
  const int k = static_cast<int>(at % view.positions);
  if (k >= view.count(static_cast<int>(row / (view.heads * view.hashes)))) return;
  place[row * view.positions + view.order[at]] = k;
}

HashedView view_of(const HashedAttentionProblem& p, const std::int64_t* order) {
  return {{p.lengths, static_cast<int>(p.tokens)},
          order,
          nullptr,
          nullptr,
          static_cast<int>(p.positions),
          static_cast<int>(p.heads),
          static_cast<int>(p.hashes),
          static_cast<int>(p.buckets),
          static_cast<int>(p.chunk()),
          p.lra};
}

template <class T, class Args>
RowArrays<T> arrays_of(const Args& args) {
  const HashedAttentionProblem& p = args.problem;
  RowArrays<T> a{};
  a.tokens = static_cast<int>(p.tokens);
  a.positions = static_cast<int>(p.positions);
  a.heads = static_cast<int>(p.heads);
  a.dim = static_cast<int>(p.head_dim);
  a.in_stride = p.heads * p.head_dim;
  a.out_stride = p.lra ? p.head_dim : a.in_stride;
  a.head_stride = p.lra ? p.positions * p.head_dim : p.head_dim;
  a.scale = p.lra ? std::sqrt(static_cast<float>(p.head_dim)) : 1.0f;
  a.q = a.k = static_cast<const T*>(args.qk);
  a.v = static_cast<const T*>(args.v);
  a.out = static_cast<T*>(const_cast<void*>(args.out));
  a.lse = static_cast<float*>(const_cast<void*>(args.lse));
  a.normalized = !p.lra;
  return a;
}

std::int64_t rows_of(const HashedAttentionProblem& p) { return p.batch * p.heads * p.positions; }

// Computes 1 / |k| into `inverse_norm`, except in the variant lra.
template <int C, class T>
void find_norms(CudaQueue& queue, const HashedAttentionProblem& p, const RowArrays<T>& arrays,
                float* inverse_norm, HashedView& view) {
  if (p.lra) return;
  launch(queue, {"hashed_attention_norms", {p.batch, p.tokens, p.heads, p.head_dim}},
         hashed_attention_norms_kernel<T, C>, row_launch<T>(rows_of(p)), arrays, view, inverse_norm,
         rows_of(p));
  view.inverse_norm = inverse_norm;
}

}  // namespace
}  // namespace attention

void run(CudaQueue& queue, const HashedAttentionForward& args) {
  using namespace attention;
  const HashedAttentionProblem& p = args.problem;
  auto bucket = queue.scratch<int>(rows_of(p) * p.hashes);
  auto place = queue.scratch<int>(rows_of(p) * p.hashes);
  auto norms = queue.scratch<float>(rows_of(p));
  for_rows("hashed_attention", p.dtype, p.head_dim, [&](auto zero, auto columns) {
    using T = decltype(zero);
    constexpr int C = columns;
    const RowArrays<T> arrays = arrays_of<T>(args);
    HashedView view = view_of(p, args.order);
    find_norms<C>(queue, p, arrays, norms.get(), view);
    launch(queue, {"hashed_attention_buckets", {p.batch, p.tokens, p.heads, p.head_dim}},
           hashed_attention_buckets_kernel<T, C>, row_launch<T>(rows_of(p)), arrays, view,
           args.rotations, bucket.get(), rows_of(p));
    launch(queue, {"hashed_attention_sort", {p.batch, p.tokens, p.heads, p.hashes}},
           hashed_attention_sort_kernel,
           LaunchShape{blocks_for(p.batch * p.heads * p.hashes, 1), cuda::kWarpSize}, view,
           bucket.get(), args.order, place.get());
    if (has_hashed_tiles(p, args.qk, args.v, args.out)) {
      return hashed_tiles_forward(queue, args, norms.get());
    }
    view.place = place.get();
    rows_forward<C>(queue, "hashed_attention_forward", arrays, view, p.batch);
  });
}

void run(CudaQueue& queue, const HashedAttentionBackward& args) {
  using namespace attention;
  const HashedAttentionProblem& p = args.problem;
  auto place = queue.scratch<int>(rows_of(p) * p.hashes);
  auto norms = queue.scratch<float>(rows_of(p));
  for_rows("hashed_attention", p.dtype, p.head_dim, [&](auto zero, auto columns) {
    using T = decltype(zero);
    constexpr int C = columns;
    RowArrays<T> arrays = arrays_of<T>(args);
    HashedView view = view_of(p, args.order);
    find_norms<C>(queue, p, arrays, norms.get(), view);
    arrays.dout = static_cast<const T*>(args.dout);
    if (has_hashed_tiles(p, args.qk, args.v, args.dout) && starts_aligned(args.dqk) &&
        starts_aligned(args.dv)) {
      const auto delta = queue.scratch<float>(rows_of(p));
      launch(queue, {"hashed_attention_delta", {p.batch, p.tokens, p.heads, p.head_dim}},
             attention_rows_delta_kernel<T, C>, row_launch<T>(rows_of(p)), arrays, delta.get(),
             rows_of(p));
      return hashed_tiles_backward(queue, args, norms.get(), delta.get());
    }
    launch(queue, {"hashed_attention_places", {p.batch, p.tokens, p.heads, p.hashes}},
           hashed_attention_places_kernel,
           LaunchShape{blocks_for(rows_of(p) * p.hashes, kRowThreads), kRowThreads}, view,
           place.get(), rows_of(p) * p.hashes);
    view.place = place.get();
    arrays.dq = static_cast<T*>(args.dqk);
    arrays.dv = static_cast<T*>(args.dv);
    rows_backward<C>(queue, "hashed_attention_backward", arrays, view, p.batch);
  });
}

}  // namespace dtn
