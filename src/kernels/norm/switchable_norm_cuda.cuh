// Shared code of switchable normalization on CUDA: the layout of an image over blocks, the
// statistics folded into few terms per channel and per token, and sums over a warp.
#pragma once

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/norm/switchable_norm.h"

namespace dtn::switchable {

// Rows that are loaded before the first of them is used.
inline constexpr int kRows = 4;
inline constexpr int kMaxThreads = 256;

// A block takes a piece: some tokens of one image. A thread takes a run of adjacent channels of all
// these tokens. So the values of a channel stay in its registers, and sums over tokens stay in the
// thread. If a block cannot hold all channels, several blocks share them.
struct Layout {
  std::int64_t pieces, piece_rows;  // per image
  unsigned blocks;                  // that share the channels
  unsigned threads;
  int run;  // channels per thread: 4, or 1 if vectors cannot be read

  // Returns the layout for activations of T and float32 parameters at these addresses (or null).
  template <class T>
  static Layout of(const SwitchableTerms& t, std::initializer_list<const void*> activations,
                   std::initializer_list<const void*> parameters = {}) {
    Layout l{};
    l.run = t.channels % 4 == 0 ? 4 : 1;
    auto check = [&](const void* p, std::size_t bytes) {
      if (reinterpret_cast<std::uintptr_t>(p) % bytes != 0) l.run = 1;
    };
    for (const void* p : activations) check(p, 4 * sizeof(T));
    for (const void* p : parameters) check(p, 4 * sizeof(float));
    const std::int64_t runs = (t.channels + l.run - 1) / l.run;
    l.blocks = blocks_for(runs, kMaxThreads).x;
    l.threads = blocks_for(blocks_for(runs, l.blocks).x, cuda::kWarpSize).x * cuda::kWarpSize;
    // About a thousand pieces in total, of at least kMinRows rows.
    constexpr std::int64_t kPieces = 1024, kMinRows = 16;
    std::int64_t rows = (t.batch * t.most_tokens() + kPieces - 1) / kPieces;
    if (rows < kMinRows) rows = kMinRows;
    l.piece_rows = (rows + kRows - 1) / kRows * kRows;
    l.pieces = (t.most_tokens() + l.piece_rows - 1) / l.piece_rows;
    return l;
  }
  dim3 grid(const SwitchableTerms& t) const {
    return dim3(static_cast<unsigned>(t.batch * pieces), blocks);
  }
};

// Calls f(run) with the run as a constant.
template <class F>
void for_run(const Layout& layout, F&& f) {
  if (layout.run == 4) return f(std::integral_constant<int, 4>{});
  f(std::integral_constant<int, 1>{});
}

// Number of valid tokens of each image, out of T.
struct Samples {
  std::int64_t tokens;
  const std::int64_t* lengths;  // [B]; null: all tokens are valid

  explicit Samples(const SwitchableTerms& t) : tokens(t.tokens), lengths(t.lengths) {}
  __device__ __forceinline__ std::int64_t tokens_of(std::int64_t image) const {
    return lengths ? lengths[image] : tokens;
  }
  // Returns true if `token`, counted over all images, is a pad of `image`.
  __device__ __forceinline__ bool is_pad(std::int64_t token, std::int64_t image) const {
    return token - image * tokens >= tokens_of(image);
  }
};

// Position of a block and a thread in this layout. Pieces past the end of a short sample are empty.
template <int kRun>
struct Place {
  std::int64_t image, begin, end;  // tokens [begin, end) of the image
  std::int64_t first_pad, step;    // pads of this block: every step-th from first_pad on
  std::int64_t column;             // the thread's first channel
  bool live;                       // true if there is such a channel

  __device__ __forceinline__ Place(std::int64_t pieces, std::int64_t piece_rows,
                                   const Samples& samples, std::int64_t channels)
      : image(blockIdx.x / pieces),
        begin(blockIdx.x % pieces * piece_rows),
        end(begin + piece_rows),
        first_pad(samples.tokens_of(image) + blockIdx.x % pieces),
        step(pieces),
        column((static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kRun),
        live(column < channels) {
    const std::int64_t tokens = samples.tokens_of(image);
    if (end > tokens) end = tokens;
  }
};

// SwitchableTerms with typed pointers.
struct Terms {
  std::int64_t batch, tokens, channels;
  Samples samples;
  double rows;  // of all samples
  float eps;
  const float *mean_weight, *var_weight;
  double* token_mean;
  float* token_var;
  double* image_mean;
  float* image_var;
  double* batch_mean;
  float* batch_var;
  const float *running_mean, *running_var;

  explicit Terms(const SwitchableTerms& t)
      : batch(t.batch),
        tokens(t.tokens),
        channels(t.channels),
        samples(t),
        rows(static_cast<double>(t.rows())),
        eps(static_cast<float>(t.eps)),
        mean_weight(static_cast<const float*>(t.mean_weight)),
        var_weight(static_cast<const float*>(t.var_weight)),
        token_mean(static_cast<double*>(t.token_mean)),
        token_var(static_cast<float*>(t.token_var)),
        image_mean(static_cast<double*>(t.image_mean)),
        image_var(static_cast<float*>(t.image_var)),
        batch_mean(static_cast<double*>(t.batch_mean)),
        batch_var(static_cast<float*>(t.batch_var)),
        running_mean(static_cast<const float*>(t.running_mean)),
        running_var(static_cast<const float*>(t.running_var)) {}

  // Batch statistics, or the running statistics if those are missing.
  __device__ __forceinline__ double mean_of_batch(std::int64_t c) const {
    return batch_mean ? batch_mean[c] : static_cast<double>(running_mean[c]);
  }
  __device__ __forceinline__ float var_of_batch(std::int64_t c) const {
    return batch_mean ? batch_var[c] : running_var[c];
  }
};

// Softmax of three logits, in the order instance, layer, batch. It sums to one in float64, so that
// even a large mean is subtracted completely.
struct Shares {
  double in, ln, bn;

  __device__ __forceinline__ explicit Shares(const float* logits) {
    float top = logits[0];
    for (int k = 1; k < 3; ++k) top = logits[k] > top ? logits[k] : top;
    in = expf(logits[0] - top);
    ln = expf(logits[1] - top);
    bn = expf(logits[2] - top);
    const double scale = 1 / (in + ln + bn);
    in *= scale, ln *= scale, bn *= scale;
  }
};

// Statistics, folded for use:
//    x - mu = (x - pivot[b,c]) - (shift[b,c] + token_shift[b,t])
//    var + eps = var[b,c] + token_var[b,t]
// The pivot is the rounded mean of the channel, so these differences keep all significant digits.
struct Folded {
  float *pivot, *shift, *var;      // [B, C]
  float *token_shift, *token_var;  // [B, T]

  static std::int64_t size(const SwitchableTerms& t) {
    return t.batch * (3 * t.channels + 2 * t.tokens);
  }
  Folded(float* memory, const SwitchableTerms& t)
      : pivot(memory),
        shift(pivot + t.batch * t.channels),
        var(shift + t.batch * t.channels),
        token_shift(var + t.batch * t.channels),
        token_var(token_shift + t.batch * t.tokens) {}
};

// Running statistics to update, if any.
struct Running {
  float momentum = 0;
  float *next_mean = nullptr, *next_var = nullptr;
};

// Fills `folded` and updates the running statistics.
void fold(CudaQueue& queue, const SwitchableTerms& terms, const Folded& folded,
          const Running& running = {});

// Sums kCount values over the lanes of a warp. Lane i gets the sum of value
// i / (kWarpSize / kCount). This takes fewer shuffles than kCount separate sums.
template <int kCount>
__device__ __forceinline__ float warp_sums(float (&v)[kCount], int lane) {
  int offset = cuda::kWarpSize / 2;
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2, offset /= 2) {
    const bool upper = lane & offset;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float kept = upper ? v[i + half] : v[i], sent = upper ? v[i] : v[i + half];
      v[i] = kept + __shfl_xor_sync(cuda::kWholeWarp, sent, offset);
    }
  }
#pragma unroll
  for (; offset > 0; offset /= 2) v[0] += __shfl_xor_sync(cuda::kWholeWarp, v[0], offset);
  return v[0];
}

// Sums values of kColumns columns over groups of threads. Thread (group, column) of a block passes
// its value to sum(), and every thread gets the sum of its column.
template <int kColumns>
struct ColumnBlock {
  static constexpr int kThreads = 1024;
  static constexpr int kGroups = kThreads / kColumns;
  static constexpr int kStride = kColumns + 1;  // avoids bank conflicts
  static constexpr std::size_t kSharedBytes = (kGroups + 1) * kStride * sizeof(double);
  static_assert(kGroups == 2 * cuda::kWarpSize);

  int group, slot;
  std::int64_t column;
  double* shared;

  __device__ __forceinline__ explicit ColumnBlock(double* scratch)
      : group(static_cast<int>(threadIdx.x) / kColumns),
        slot(static_cast<int>(threadIdx.x) % kColumns),
        column(static_cast<std::int64_t>(blockIdx.x) * kColumns + slot),
        shared(scratch) {}

  __device__ __forceinline__ double sum(double v) const {
    shared[group * kStride + slot] = v;
    __syncthreads();
    const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
    const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
    if (warp < kColumns) {
      const double total = cuda::warp_sum(shared[lane * kStride + warp] +
                                          shared[(lane + cuda::kWarpSize) * kStride + warp]);
      if (lane == 0) shared[kGroups * kStride + warp] = total;
    }
    __syncthreads();
    return shared[kGroups * kStride + slot];
  }
};

}  // namespace dtn::switchable
