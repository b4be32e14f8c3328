// Shared by the CUDA kernels of DTN on sequences; see dtn_sequence.h for the formulas.
//
// A block processes 64 tokens of a sample and at most 32 channels of a head. A warp has 8 of the
// tokens, and each of its lanes has one channel. The warp loops over the tokens that these 8 tokens
// read, 32 at a time. First each lane computes the weights of one of the 32 for all 8 tokens and
// stores them in shared memory. Then each value that is loaded adds to the sums of 8 tokens in
// registers. All lanes read the same weights, 16 bytes at once. The kernels compute weights from
// their formula and store no table or matrix. So no allocation depends on the width of the windows,
// and the host need not know the weights. Tokens outside all 8 windows are skipped. Warps do not
// wait for each other.
#pragma once

#include <algorithm>
#include <cfloat>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/dtn/dtn_norm_cuda.cuh"
#include "kernels/dtn_sequence/dtn_sequence.h"

namespace dtn::line {

inline constexpr int kWidth = cuda::kWarpSize;  // channels per block
inline constexpr int kSeen = cuda::kWarpSize;   // tokens that are read together
inline constexpr int kRows = 8;                 // tokens per warp
inline constexpr int kWarps = 8;                // warps per block
inline constexpr int kThreads = kWarps * cuda::kWarpSize;
inline constexpr int kTile = kWarps * kRows;  // tokens per block
inline constexpr float kMin = -20.7232658f;   // ln of dtn_sequence_least_weight()
inline constexpr int kFar = 1 << 24;          // tokens; longer than any sequence

// Kernel arguments that both passes share.
struct Line {
  DtnSizes sizes;
  const std::int64_t* lengths;  // [B], or null
  const float* pos_weight;      // [H, 3]
  float direction;              // sign of offsets: +1 for j - i
  const void* x;
  const double* head_rstd;
  float* pivot;
  int parts, tiles;  // slices per head, tiles of all T tokens

  template <class Arguments>
  explicit Line(const Arguments& args)
      : sizes(args.norm),
        lengths(args.lengths),
        pos_weight(static_cast<const float*>(args.norm.pos_weight)),
        direction(args.norm.variant == DtnVariant::kOfficial ? -1.0f : 1.0f),
        x(args.norm.x),
        head_rstd(static_cast<const double*>(args.norm.head_rstd)),
        pivot(static_cast<float*>(args.norm.pivot)),
        parts((sizes.head_dim + kWidth - 1) / kWidth),
        tiles((sizes.tokens + kTile - 1) / kTile) {}

  std::int64_t slices() const { return sizes.batch * sizes.heads * parts; }
  __device__ __forceinline__ int length_of(std::int64_t sample) const {
    if (!lengths) return sizes.tokens;
    const std::int64_t n = lengths[sample];
    return static_cast<int>(n < 0 ? 0 : n > sizes.tokens ? sizes.tokens : n);
  }
};

// A slice: up to 32 channels of a head of a sample. Each active lane has one of them.
struct Slice {
  std::int64_t sample;
  int head, part, tokens;  // tokens: valid tokens of the sample
  int lane, warp;
  bool active;
  int channel;  // in [0, C); inactive lanes have the first channel of the slice

  // The i-th of all slices of all samples.
  __device__ Slice(const Line& line, std::int64_t i) {
    part = static_cast<int>(i % line.parts);
    i /= line.parts;
    head = static_cast<int>(i % line.sizes.heads);
    sample = i / line.sizes.heads;
    tokens = line.length_of(sample);
    lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
    warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
    const int index = part * kWidth + lane;
    active = index < line.sizes.head_dim;
    channel = head * line.sizes.head_dim + (active ? index : part * kWidth);
  }

  // Offsets of token 0 in x, y and their gradients, and in dense tensors [B, T, C].
  __device__ __forceinline__ std::int64_t start(const Line& line) const {
    return sample * line.sizes.image + channel;
  }
  __device__ __forceinline__ std::int64_t dense_start(const Line& line) const {
    return sample * line.sizes.tokens * line.sizes.channels + channel;
  }
  __device__ __forceinline__ std::int64_t of_channel(const Line& line) const {
    return sample * line.sizes.channels + channel;
  }
  __device__ __forceinline__ std::int64_t of_head(const Line& line) const {
    return sample * line.sizes.heads + head;
  }
};

// Values of the lane's channel, for the statistics: x minus the pivot, or for the official variant
// x times head_rstd minus the pivot.
template <class T, bool kOfficial>
struct Values {
  const T* x;
  std::int64_t step;
  const double* scale;
  float pivot;

  __device__ Values(const Line& line, const Slice& s, float pivot_)
      : x(static_cast<const T*>(line.x) + s.start(line)),
        step(line.sizes.channels),
        scale(kOfficial ? line.head_rstd + s.of_head(line) * line.sizes.tokens : nullptr),
        pivot(pivot_) {}

  __device__ __forceinline__ float operator()(int t) const {
    return centred<kOfficial>(x[t * step], scale, t, pivot);
  }
};

enum class Kind { kWindow, kMean, kEnds };  // a_d < 0, = 0, > 0

// The weights of a head.
struct Window {
  Kind kind;
  int middle, radius;  // kWindow: offset of the window's middle, half-width of the window
  float a_x, a_d;

  __device__ Window(const Line& line, int head) : middle(0), radius(0) {
    a_x = line.direction * line.pos_weight[3 * head];
    a_d = line.pos_weight[3 * head + 2];
    // Weights that are not finite give rows of NaN.
    const bool finite = fabsf(a_x) <= FLT_MAX && fabsf(a_d) <= FLT_MAX;
    kind = finite && a_d < 0 ? Kind::kWindow : finite && a_d == 0 ? Kind::kMean : Kind::kEnds;
    if (kind != Kind::kWindow) return;
    constexpr float far = kFar;
    const float ahead = a_x / (-2 * a_d), reach = ceilf(sqrtf(kMin / a_d)) + 1;
    middle = static_cast<int>(rintf(ahead > far ? far : ahead < -far ? -far : ahead));
    radius = reach < far ? static_cast<int>(reach) : kFar;
  }
};

// The weights of token i of n, relative to the largest:
//    w(j) = exp(t (a_d t + slope)),   t = j - centre
struct Row {
  double exact_slope;  // kEnds
  float slope;         // kWindow
  int centre;

  __device__ Row(const Window& w, int i, int n) {
    if (w.kind == Kind::kWindow) {
      centre = std::min(std::max(i + w.middle, 0), n - 1);
      slope = fmaf(w.a_d, static_cast<float>(2 * (centre - i)), w.a_x);  // rounded once
      exact_slope = 0;
    } else {
      const double a_d = w.a_d, a_x = w.a_x;
      centre = a_d * (n - 1 - 2.0 * i) + a_x > 0 ? n - 1 : 0;
      exact_slope = a_d * (2.0 * (centre - i)) + a_x;
      slope = 0;
    }
  }

  // kWindow: both terms have the same sign, or the second is almost 0. kEnds: the terms cancel, so
  // they are in float64.
  __device__ __forceinline__ float exponent(const Window& w, int j) const {
    const int t = j - centre;
    if (w.kind == Kind::kWindow) {
      const auto d = static_cast<float>(t);
      return d * (w.a_d * d + slope);
    }
    const auto d = static_cast<double>(t);
    return static_cast<float>(d * (static_cast<double>(w.a_d) * d + exact_slope));
  }
  __device__ __forceinline__ bool sees(const Window& w, int j) const {  // true for NaN
    return !(exponent(w, j) < kMin);
  }
  __device__ __forceinline__ float weight(const Window& w, int j) const {
    const float e = exponent(w, j);
    return e < kMin ? 0.0f : expf(e);
  }
};

// Returns the first element of [from, to) for which `holds` is true, or `to`. `holds` must also be
// true for all elements after it.
template <class F>
__device__ __forceinline__ int first_that(int from, int to, F&& holds) {
  while (from < to) {
    const int at = from + (to - from) / 2;
    if (holds(at)) {
      to = at;
    } else {
      from = at + 1;
    }
  }
  return from;
}

// The tokens [begin, begin + left) and more tokens after a gap, with indices 0 to count - 1.
struct Places {
  int begin, left, gap, count;

  __device__ __forceinline__ int at(int k) const { return begin + k + (k < left ? 0 : gap); }
  // Number of tokens that are read together from the k-th on.
  __device__ __forceinline__ int count_from(int k) const {
    return count - k < kSeen ? count - k : kSeen;
  }
};

// The tokens that tokens [first, first + kRows) of a sequence of n read; first < n. Collective.
__device__ inline Places seen_by(const Window& w, int first, int n) {
  if (w.kind == Kind::kWindow) {
    const Row low(w, first, n), high(w, std::min(first + kRows, n) - 1, n);
    const int begin = std::max(low.centre - w.radius, 0);
    const int count = std::min(high.centre + w.radius + 1, n) - begin;
    return {begin, count, 0, count};
  }
  // The exponent falls from both ends to its vertex.
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int i = std::min(first + lane % kRows, n - 1);
  const Row row(w, i, n);
  const double vertex = i - static_cast<double>(w.a_x) / (2 * static_cast<double>(w.a_d));
  int turn = n;  // if vertex is NaN: all tokens are left of it
  if (vertex < n) turn = vertex > 0 ? static_cast<int>(vertex) : 0;
  int left = first_that(0, turn, [&](int j) { return !row.sees(w, j); });
  int right = first_that(turn, n, [&](int j) { return row.sees(w, j); });
  left = cuda::warp_max(left);
  right = -cuda::warp_max(-right);
  if (left >= right) return {0, n, 0, n};
  return {0, left, right - left, left + n - right};
}

// The tokens that read tokens [first, first + kRows) of a sequence of n; first < n. Collective.
__device__ inline Places those_who_see(const Window& w, int first, int n) {
  const int last = std::min(first + kRows, n) - 1;
  if (w.kind == Kind::kWindow) {
    const int begin = first <= w.radius ? 0 : std::max(first - w.radius - w.middle, 0);
    const int end =
        last + w.radius >= n - 1 ? n : std::min(std::max(last + w.radius - w.middle + 1, 0), n);
    const int count = std::max(end - begin, 0);
    return {begin, count, 0, count};
  }
  // As a function of i, the exponent grows up to the first row whose largest weight is at token 0,
  // and then falls.
  const int j = std::min(first + static_cast<int>(threadIdx.x) % kRows, last);
  const int turn = first_that(0, n, [&](int i) { return Row(w, i, n).centre == 0; });
  const int begin = first_that(0, turn, [&](int i) { return Row(w, i, n).sees(w, j); });
  const int end = first_that(turn, n, [&](int i) { return !Row(w, i, n).sees(w, j); });
  const int from = -cuda::warp_max(-begin), count = cuda::warp_max(end) - from;
  return {from, count, 0, count};
}

// Shared memory of a warp: kPlanes kinds of weights, for each of the kSeen tokens that are read.
template <int kPlanes>
struct WarpRoom {
  alignas(16) float weights[kPlanes][kSeen][kRows];
  Row rows[kRows];
  float means[kRows];  // rounded means of t
};

__device__ __forceinline__ void load_rows(const float* from, float (&to)[kRows]) {
  const float4 low = reinterpret_cast<const float4*>(from)[0];
  const float4 high = reinterpret_cast<const float4*>(from)[1];
  to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
  to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}
__device__ __forceinline__ void store_four(float* to, const float (&from)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
}

// Sums of w x and w x^2 over the tokens that are read, for the lane's channel. kMoments = 3 adds
// the sums for the gradient of positions, with s = t - means[r]:
//    w s x,   w s^2 x,   w s x^2,   w s^2 x^2
template <int kMoments>
struct RowSums {
  float first[kMoments][kRows] = {}, second[kMoments][kRows] = {};
  float weight = 0;  // lane k kRows + r: sum of w s^k of row r
};

// Returns the mean of t under the weights of a row, rounded to an integer. Collective.
__device__ inline float mean_place(const Window& w, const Row& row, const Places& seen) {
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  float sum = 0, placed = 0;
#pragma unroll 1
  for (int k = lane; k < seen.count; k += kSeen) {
    const int j = seen.at(k);
    const float weight = row.weight(w, j);
    sum += weight;
    placed += weight * static_cast<float>(j - row.centre);
  }
  return rintf(cuda::warp_sum(placed) / cuda::warp_sum(sum));
}

// Stores the rows of tokens [first, first + kRows) in `room`. Collective.
template <int kMoments>
__device__ __forceinline__ void make_rows(const Window& w, int first, int n, const Places& seen,
                                          WarpRoom<kMoments>& room) {
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
#pragma unroll 1
  for (int r = 0; r < kRows; ++r) {
    const Row row(w, std::min(first + r, n - 1), n);
    const float mean = kMoments > 1 ? mean_place(w, row, seen) : 0.0f;
    if (lane == 0) {
      room.rows[r] = row;
      room.means[r] = mean;
    }
  }
  __syncwarp();
}

// Stores the weights of token j for all rows in shared memory, multiplied by s^k, k < kMoments.
template <int kMoments>
__device__ __forceinline__ void make_weights(const Window& w, int j, int lane,
                                             WarpRoom<kMoments>& room) {
#pragma unroll 1
  for (int begin = 0; begin < kRows; begin += 4) {
    float made[kMoments][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const Row& row = room.rows[begin + r];
      float weight = row.weight(w, j);
      const float s = static_cast<float>(j - row.centre) - room.means[begin + r];
#pragma unroll
      for (int k = 0; k < kMoments; ++k) {
        made[k][r] = weight;
        weight *= s;
      }
    }
#pragma unroll
    for (int k = 0; k < kMoments; ++k) {
      store_four(&room.weights[k][lane][begin], made[k]);
    }
  }
}

// Adds to the sums of tokens [first, first + kRows), first < n. Collective.
template <int kMoments, class Of>
__device__ __forceinline__ void add_moments(const Window& w, int first, int n, const Of& values,
                                            WarpRoom<kMoments>& room, RowSums<kMoments>& sums) {
  const Places seen = seen_by(w, first, n);
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  make_rows(w, first, n, seen, room);
#pragma unroll 1
  for (int begin = 0; begin < seen.count; begin += kSeen) {
    const int count = seen.count_from(begin);
    if (lane < count) make_weights(w, seen.at(begin + lane), lane, room);
    __syncwarp();
    if (lane < kMoments * kRows) {
#pragma unroll 4
      for (int i = 0; i < count; ++i) sums.weight += room.weights[lane / kRows][i][lane % kRows];
    }
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const float a = values(seen.at(begin + i)), b = a * a;
#pragma unroll
      for (int k = 0; k < kMoments; ++k) {
        float weight[kRows];
        load_rows(room.weights[k][i], weight);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          sums.first[k][r] += weight[r] * a;
          sums.second[k][r] += weight[r] * b;
        }
      }
    }
    __syncwarp();
  }
}

// For a_d = 0: the moments, which are the same for all tokens of a sample. The weight of token j is
// exp(a_x (j - centre)) scale.
struct Means {
  // [2, moments, B, C]: sums of x and of x^2, with weights 1, s and s^2, s = j - middle.
  float* sums;
  // [4, B, H]: scale, middle, and the means of s and of s^2.
  float* shares;

  __device__ __forceinline__ float sum(const Line& line, const Slice& s, int moments, int square,
                                       int k) const {
    return sums[(square * moments + k) * line.sizes.batch * line.sizes.channels +
                s.of_channel(line)];
  }
  __device__ __forceinline__ float share(const Line& line, const Slice& s, int which) const {
    return shares[which * line.sizes.batch * line.sizes.heads + s.of_head(line)];
  }
};
__device__ __forceinline__ float mean_weight(const Window& w, int j, int n) {
  return expf(w.a_x * static_cast<float>(j - (w.a_x > 0 ? n - 1 : 0)));
}

// Computes the moments of the heads with a_d = 0: those of x and x^2 alone (moments = 1), or also
// those for the gradient of positions (moments = 3). Does not write the entries of other heads.
struct MeansMemory {
  DeviceScratch<float> memory;
  Means means;
};
MeansMemory make_means(CudaQueue& queue, const Line& line, const DtnNormArguments& args,
                       int moments);

inline void check(const DtnNormArguments& norm) {
  DTN_CHECK(norm.grid_h == 1 && norm.pool == 1,
            "dtn: a sequence needs a grid of one row, and pool 1");
}

inline KernelName kernel_name(const char* kernel, const Line& line) {
  const DtnSizes& sizes = line.sizes;
  return {kernel, {sizes.batch, sizes.tokens, sizes.channels, sizes.heads}};
}

}  // namespace dtn::line
