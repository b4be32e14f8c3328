// Building blocks of the CUDA-core kernels of attention, in true float32. A block of 128 threads
// keeps 8 R rows of one side (queries or keys) in shared memory: the owned rows. It loads 32 rows
// of the other side at a time: the streamed rows. Sixteen threads share R owned rows, interleaved
// by 8:
//    dot:         s = own rows^T, R x 2 of [8 R, 32] per thread
//    accumulate:  acc += p rows, R x C of [8 R, 16 C] per thread, in C / 4 groups of 4 columns
// Both read 16 bytes at a time. dot does 8 R multiply-adds for R + 2 of these reads, accumulate 4 R
// C for R + C.
//
// A row takes 16 C + 4 floats, an odd number of 16-byte units. So the 8 rows that a quarter of a
// warp reads at a time lie in different banks. A row of p takes 48 floats, so the two rows that a
// warp writes lie in different banks.
#pragma once

#include "kernels/attention/attention_bias.cuh"
#include "kernels/attention/attention_groups.cuh"
#include "kernels/cuda/reduce.cuh"

namespace dtn::attention {

inline constexpr std::size_t kMinSharedMemory = std::size_t{99} << 10;  // least of all devices
inline constexpr int kPlainThreads = 128;
inline constexpr int kPlainStream = 32;  // streamed rows at a time
inline constexpr int kPlainStride = 48;  // floats from row to row of p
template <int C>
inline constexpr int kPlainRow = 16 * C + 4;  // floats from owned or streamed row to row
inline constexpr int kSharers = 16;           // threads that share rows
inline constexpr int kSharerGroups = kPlainThreads / kSharers;

// Registers hold R x C sums, twice in the backward pass. Shared memory holds 8 R owned rows, also
// twice in the backward pass, within the 99 KiB that every device gives a block.
template <int C, int R>
struct Plain {
  static constexpr int kRows = R;
  static constexpr int kOwnRows = kSharerGroups * kRows;
  static constexpr int kStride = kPlainRow<C>;
  static constexpr int kOwnSize = kOwnRows * kStride;
  static constexpr int kStreamSize = kPlainStream * kStride;
  static constexpr int kProbabilities = kOwnRows * kPlainStride;
};

// A thread's part: the owned rows group + 8 r; `sharer` selects its columns and streamed rows.
struct PlainThread {
  int group, sharer;
};
__device__ __forceinline__ PlainThread plain_thread() {
  int thread = static_cast<int>(threadIdx.x);
  return {thread / kSharers, thread % kSharers};
}

// Sum and maximum over the threads that share a row.
__device__ __forceinline__ float sum_of_sharers(float v) {
#pragma unroll
  for (int offset = kSharers / 2; offset > 0; offset /= 2) {
    v += __shfl_xor_sync(cuda::kWholeWarp, v, offset);
  }
  return v;
}
__device__ __forceinline__ float max_of_sharers(float v) {
#pragma unroll
  for (int offset = kSharers / 2; offset > 0; offset /= 2) {
    v = fmaxf(v, __shfl_xor_sync(cuda::kWholeWarp, v, offset));
  }
  return v;
}

// Adds one row's scores of 32 more keys to the softmax. Replaces the scores by exp(s - largest) and
// returns the factor for the sums over earlier keys.
__device__ __forceinline__ float take_scores(float (&s)[2], float& largest, float& sum) {
  float m = fmaxf(largest, max_of_sharers(fmaxf(s[0], s[1])));
  float shift = m == -INFINITY ? 0.0f : m;  // avoids -infinity - -infinity
  float factor = expf(largest - shift);
  largest = m;
  s[0] = expf(s[0] - shift);
  s[1] = expf(s[1] - shift);
  sum = sum * factor + (s[0] + s[1]);
  return factor;
}

// Copies `count` rows of a head of a unit to shared memory as float32, from row `first` of the
// group's `per_group` rows on. Rows past the last one and columns from `dim` on become zeros.
template <int C, bool kGrouped, class T>
__device__ __forceinline__ void load_rows(float* to, const GroupedShape& shape,
                                          const GroupedRows<const T>& rows, BlockHead head,
                                          int per_group, int first, int count, int dim) {
  constexpr int n = cuda::kPerVector<T>, kVectors = 16 * C / n;
  const auto row_at = unit_rows<kGrouped>(shape, rows, head, per_group);
  const int left = per_group - first;
  for (int i = static_cast<int>(threadIdx.x); i < count * kVectors; i += kPlainThreads) {
    int row = i / kVectors, column = i % kVectors * n;
    bool inside = row < left;
    const T* source = row_at(first + (inside ? row : 0)) + column;
    float v[n] = {};
    if (inside && shape.aligned && column < dim) {
      cuda::load_vector<T>(source, v);
    } else if (inside) {
#pragma unroll
      for (int k = 0; k < n; ++k) {
        if (column + k < dim) v[k] = cuda::to_float(source[k]);
      }
    }
    float* target = to + row * kPlainRow<C> + column;
#pragma unroll
    for (int k = 0; k < n; k += 4) {
      *reinterpret_cast<float4*>(target + k) = make_float4(v[k], v[k + 1], v[k + 2], v[k + 3]);
    }
  }
}

__device__ __forceinline__ float dot4(float4 a, float4 b, float c) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, c))));
}

// s[r][j] = own row r . streamed row `sharer + 16 j`.
template <int C, int R>
__device__ __forceinline__ void dot(float (&s)[R][2], const float* own, const float* rows,
                                    int dim) {
  constexpr int kStride = kPlainRow<C>;
  PlainThread at = plain_thread();
  own += at.group * kStride;
  rows += at.sharer * kStride;
#pragma unroll
  for (int r = 0; r < R; ++r) s[r][0] = s[r][1] = 0;
  for (int d = 0; d < dim; d += 4) {
    float4 b[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      b[j] = *reinterpret_cast<const float4*>(rows + j * kSharers * kStride + d);
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      float4 a = *reinterpret_cast<const float4*>(own + r * kSharerGroups * kStride + d);
#pragma unroll
      for (int j = 0; j < 2; ++j) s[r][j] = dot4(a, b[j], s[r][j]);
    }
  }
}

// Writes p to shared memory for the threads that share its rows. The previous p must no longer be
// in use.
template <int R>
__device__ __forceinline__ void share(float* to, const float (&p)[R][2]) {
  PlainThread at = plain_thread();
  __syncwarp();
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      to[(at.group + r * kSharerGroups) * kPlainStride + at.sharer + j * kSharers] = p[r][j];
    }
  }
  __syncwarp();
}

// acc[r][..] += p[r, 32] rows[32, ..]. acc[r][4 u + i] holds column 4 (sharer + 16 u) + i.
template <int C, int R>
__device__ __forceinline__ void accumulate(float (&acc)[R][C], const float* p, const float* rows) {
  constexpr int kStride = kPlainRow<C>;
  PlainThread at = plain_thread();
  p += at.group * kPlainStride;
  rows += at.sharer * 4;
#pragma unroll 1
  for (int j = 0; j < kPlainStream; j += 4) {
    float weights[R][4];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      float4 w = *reinterpret_cast<const float4*>(p + r * kSharerGroups * kPlainStride + j);
      weights[r][0] = w.x, weights[r][1] = w.y, weights[r][2] = w.z, weights[r][3] = w.w;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int u = 0; u < C / 4; ++u) {
        float4 b = *reinterpret_cast<const float4*>(rows + (j + i) * kStride + u * 4 * kSharers);
#pragma unroll
        for (int r = 0; r < R; ++r) {
          acc[r][4 * u] = fmaf(weights[r][i], b.x, acc[r][4 * u]);
          acc[r][4 * u + 1] = fmaf(weights[r][i], b.y, acc[r][4 * u + 1]);
          acc[r][4 * u + 2] = fmaf(weights[r][i], b.z, acc[r][4 * u + 2]);
          acc[r][4 * u + 3] = fmaf(weights[r][i], b.w, acc[r][4 * u + 3]);
        }
      }
    }
  }
}

// Writes the `dim` columns of an owned row, times `factor`.
template <int C, class T>
__device__ __forceinline__ void store_row(T* to, const float (&acc)[C], float factor, int dim) {
  int sharer = plain_thread().sharer;
#pragma unroll
  for (int u = 0; u < C / 4; ++u) {
    int column = 4 * (sharer + kSharers * u);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column + i < dim) to[column + i] = cuda::from_float<T>(acc[4 * u + i] * factor);
    }
  }
}

// Selects the terms of grouped attention: a bias from a table and a penalty between regions, both
// part of the shape. Without them the terms are those of GridBias.
struct GroupTerms {
  static constexpr bool kBiased = false;
};
template <class Terms>
inline constexpr bool kIsGrouped = std::is_same_v<Terms, GroupTerms>;

// The terms that a thread adds to the scores of its R owned rows, from row `first` on, with its two
// streamed rows. kOwnsQueries: the owned rows are queries and the streamed ones are keys; else the
// owned rows are keys.
template <class Terms, int R, bool kOwnsQueries>
struct ThreadTerms {
  static constexpr bool kBiased = Terms::kBiased;
  const Terms& grid;
  HeadBias<kBiased> bias;
  Places<kBiased, R> own;
  BiasGradient<kBiased> gradient;

  __device__ __forceinline__ ThreadTerms(const Terms& terms, const GroupedShape&, BlockHead head,
                                         int first)
      : grid(terms), bias(terms, head), own(terms, first, kSharerGroups) {}

  // The streamed rows from `first` on.
  __device__ __forceinline__ Places<kBiased, 2> streamed(int first) const {
    return {grid, first, kSharers};
  }
  // Returns value + the terms of owned row r and streamed row j.
  __device__ __forceinline__ float add_to(float value, [[maybe_unused]] int r,
                                          [[maybe_unused]] const Places<kBiased, 2>& rows,
                                          [[maybe_unused]] int j) const {
    if constexpr (kBiased) {
      value += kOwnsQueries ? bias(own.at[r], rows.at[j]) : bias(rows.at[j], own.at[r]);
    }
    return value;
  }
  // Adds the score gradient of query r and key j to the gradient of the bias.
  __device__ __forceinline__ void take([[maybe_unused]] float ds, [[maybe_unused]] int r,
                                       [[maybe_unused]] const Places<kBiased, 2>& rows,
                                       [[maybe_unused]] int j) {
    if constexpr (kBiased) gradient.take(ds, own.at[r], rows.at[j]);
  }
  __device__ __forceinline__ void store_gradient(const GroupedShape& shape, BlockHead head) const {
    gradient.store(grid, shape, head);
  }
};

template <int R, bool kOwnsQueries>
struct ThreadTerms<GroupTerms, R, kOwnsQueries> {
  ScoreTerms terms;
  int queries, keys, first;

  __device__ __forceinline__ ThreadTerms(const GroupTerms&, const GroupedShape& shape,
                                         BlockHead head, int first_row)
      : terms(shape, head), queries(shape.queries), keys(shape.keys), first(first_row) {}

  __device__ __forceinline__ int streamed(int first_row) const { return first_row; }
  // Returns `value` for a row that does not exist.
  __device__ __forceinline__ float add_to(float value, int r, int rows, int j) const {
    const int own = first + r * kSharerGroups, streamed = rows + j * kSharers;
    const int query = kOwnsQueries ? own : streamed, key = kOwnsQueries ? streamed : own;
    return query < queries && key < keys ? value + terms(query, key) : value;
  }
  // The gradient of the table has a separate kernel.
  __device__ __forceinline__ void take(float, int, int, int) const {}
  __device__ __forceinline__ void store_gradient(const GroupedShape&, BlockHead) const {}
};

// The arguments of attention over whole samples as a problem of one group.
template <class Args>
GroupedAttentionProblem one_group(const Args& args) {
  const std::int64_t width = args.heads * args.head_dim;
  GroupedAttentionProblem p{};
  p.dtype = args.dtype;
  p.batch = args.batch, p.heads = args.heads;
  p.groups = 1, p.queries = p.keys = args.tokens;
  p.key_dim = p.value_dim = args.head_dim;
  p.scale = args.scale;
  p.q = {args.qkv, 3 * width, 0, args.head_dim};
  p.k = {args.qkv, 3 * width, width, args.head_dim};
  p.v = {args.qkv, 3 * width, 2 * width, args.head_dim};
  return p;
}

// Calls f(T{}, integral constant C) for the input's type and 16 C >= head_dim.
template <class F>
void for_plain(const char* name, DType dtype, std::int64_t head_dim, F&& f) {
  if (head_dim > kMaxPlainDim) {
    throw Error(
        cat(name, ": heads of ", head_dim, " channels; CUDA devices take up to ", kMaxPlainDim));
  }
  for_cuda_dtype(name, dtype, [&](auto zero) {
    if constexpr (std::is_same_v<decltype(zero), float>) {
      if (head_dim <= 64) return f(zero, std::integral_constant<int, 4>{});
      if (head_dim <= 128) return f(zero, std::integral_constant<int, 8>{});
    }
    if (head_dim <= 192) return f(zero, std::integral_constant<int, 12>{});
    f(zero, std::integral_constant<int, 16>{});
  });
}

// Calls f(T{}, integral constant C) for the input's type and heads of up to kMaxGroupedHead.
template <class F>
void for_grouped_plain(const char* name, const GroupedAttentionProblem& p, F&& f) {
  DTN_CHECK(p.key_dim <= kMaxGroupedHead && p.value_dim <= kMaxGroupedHead, name, ": heads of ",
            p.key_dim, " and ", p.value_dim, " channels; CUDA devices take up to ",
            kMaxGroupedHead);
  for_cuda_dtype(name, p.dtype,
                 [&](auto zero) { f(zero, std::integral_constant<int, kMaxGroupedHead / 16>{}); });
}

}  // namespace dtn::attention
