// Switchable normalization, forward; see switchable_norm.h for the formulas and
// switchable_norm_cuda.cuh for the layout of an image over blocks.
//
// The statistics read x once, four rows at a time in registers. A warp computes the rough mean of
// its channels of each row, then the mean and the squares of the differences from it. A thread
// computes the mean of the four values of each channel, and the squares around it. Then the warps
// of a row, the batches of rows, the pieces of an image and the images of the batch are combined
// (Chan, Golub and LeVeque, 1979), so that no variance is a difference of large numbers. The second
// step reads x again and writes y. The memory traffic is 3 B T C elements, and 8 C bytes of partial
// sums per piece.
#include "kernels/norm/switchable_norm_cuda.cuh"

namespace dtn {
namespace switchable {
namespace {

using cuda::kWarpSize;
using cuda::kWholeWarp;

// Coefficients that combine the moments of `count` values with those of `more` values.
struct Join {
  float share, weight;
  __device__ __forceinline__ Join(float count, float more)
      : share(more / (count + more)), weight(count * share) {}
};

// Mean and sum of squares around the mean.
struct Moments {
  float mean, squares;

  __device__ __forceinline__ void add(const Join& join, float other_mean, float other_squares) {
    const float apart = other_mean - mean;
    mean = fmaf(apart, join.share, mean);
    squares += fmaf(apart * apart, join.weight, other_squares);
  }
};

template <class T>
struct Measure {
  Terms t;
  std::int64_t pieces, piece_rows;
  const T* x;
  float* moments;  // [B pieces, (mean relative to x[b,0,c], squares), C]
  // Token statistics over the channels of each block, [blocks, B T]. With one block, these are the
  // final statistics.
  double* part_mean;
  float* part_var;
};

// Moments of a warp's channels in one row: mean = rough + delta.
struct RowPart {
  float rough, delta, squares;
};

// Computes the moments of kRows rows; `inverse` is 1 / the warp's channels. Lane kLanesPerRow r
// returns the moments of row r.
constexpr int kLanesPerRow = kWarpSize / kRows;
template <int kRun>
__device__ __forceinline__ RowPart measure_rows(const float (&v)[kRows][kRun], bool live,
                                                float inverse, int lane) {
  float sums[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int k = 0; k < kRun; ++k) sums[r] += v[r][k];
  }
  const float rough_of_lane = warp_sums(sums, lane) * inverse;
  float left[2 * kRows] = {};  // per row: sum of the differences, sum of their squares
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float rough = __shfl_sync(kWholeWarp, rough_of_lane, r * kLanesPerRow);
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      const float d = live ? v[r][k] - rough : 0.0f;
      left[2 * r] += d;
      left[2 * r + 1] = fmaf(d, d, left[2 * r + 1]);
    }
  }
  // Lane l has value l / 4 of `left`, so row l / 8. Lane l + 4 has the other sum of that row.
  const float of_lane = warp_sums(left, lane);
  const float squares = __shfl_xor_sync(kWholeWarp, of_lane, kLanesPerRow / 2);
  const float delta = of_lane * inverse;
  return {rough_of_lane, delta, fmaf(-delta, of_lane, squares)};
}

// Combines the moments of a row from the warps of a block. A warp covers whole runs of channels.
__device__ void join_warps(const RowPart* parts, int warps, std::int64_t columns,
                           std::int64_t per_warp, double* mean, float* var) {
  const float base = parts[0].rough;
  float count = static_cast<float>(columns < per_warp ? columns : per_warp);
  Moments row{parts[0].delta, parts[0].squares};
  for (int w = 1; w < warps; ++w) {
    const std::int64_t left = columns - w * per_warp;
    if (left <= 0) break;
    const float more = static_cast<float>(left < per_warp ? left : per_warp);
    const RowPart& part = parts[w * kRows];
    row.add({count, more}, (part.rough - base) + part.delta, part.squares);
    count += more;
  }
  *mean = static_cast<double>(base) + row.mean;
  *var = row.squares / count;
}

// Adds `rows` rows, after `before` earlier rows of the piece, to the moments of the thread's
// channels. The means are relative to the pivot.
template <int kRun>
__device__ __forceinline__ void add_rows(Moments (&channel)[kRun], const float (&v)[kRows][kRun],
                                         const float (&pivot)[kRun], std::int64_t before,
                                         int rows) {
  const Join join(static_cast<float>(before), static_cast<float>(rows));
  const float inverse_rows = 1 / static_cast<float>(rows);
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    float total = 0, around = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) total += r < rows ? v[r][k] - pivot[k] : 0.0f;
    const float mean = total * inverse_rows;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float d = r < rows ? v[r][k] - pivot[k] - mean : 0.0f;
      around = fmaf(d, d, around);
    }
    channel[k].add(join, mean, around);
  }
}

template <class T, int kRun>
__global__ void __launch_bounds__(kMaxThreads) switchable_norm_measure_kernel(Measure<T> a) {
  DTN_SHARED(RowPart, shared);  // [2, warps, kRows], double-buffered over the batches of rows
  const Place<kRun> at(a.pieces, a.piece_rows, a.t.samples, a.t.channels);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  constexpr int kPerWarp = kWarpSize * kRun;
  const std::int64_t first_of_block = static_cast<std::int64_t>(blockIdx.y) * blockDim.x * kRun;
  const std::int64_t of_block = a.t.channels - first_of_block, of_warp = of_block - warp * kPerWarp;
  const float inverse =
      of_warp > 0 ? 1 / static_cast<float>(of_warp < kPerWarp ? of_warp : kPerWarp) : 0.0f;
  const T* image = a.x + at.image * a.t.tokens * a.t.channels + at.column;
  float pivot[kRun] = {};
  if (at.live) cuda::load_values(image, pivot);
  Moments channel[kRun] = {};

  for (std::int64_t row = at.begin, turn = 0; row < at.end; row += kRows, turn ^= 1) {
    const int rows = at.end - row < kRows ? static_cast<int>(at.end - row) : kRows;
    float v[kRows][kRun] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (at.live && r < rows) cuda::load_values(image + (row + r) * a.t.channels, v[r]);
    }
    const RowPart part = measure_rows(v, at.live, inverse, lane);
    RowPart* parts = shared + turn * warps * kRows;
    if (lane % kLanesPerRow == 0) parts[warp * kRows + lane / kLanesPerRow] = part;
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < rows) {
      const std::int64_t token =
          blockIdx.y * a.t.batch * a.t.tokens + at.image * a.t.tokens + row + threadIdx.x;
      join_warps(parts + threadIdx.x, warps, of_block, kPerWarp, a.part_mean + token,
                 a.part_var + token);
    }
    add_rows(channel, v, pivot, row - at.begin, rows);
  }

  if (!at.live) return;
  float* to = a.moments + blockIdx.x * 2 * a.t.channels + at.column;
  float mean[kRun], squares[kRun];
#pragma unroll
  for (int k = 0; k < kRun; ++k) mean[k] = channel[k].mean, squares[k] = channel[k].squares;
  cuda::store_values(to, mean);
  cuda::store_values(to + a.t.channels, squares);
}

// Combines the statistics of tokens whose channels are split over several blocks. One thread per
// token.
constexpr int kJoinThreads = 256;
__global__ void __launch_bounds__(kJoinThreads)
    switchable_norm_join_kernel(Terms t, const double* part_mean, const float* part_var,
                                std::int64_t blocks, std::int64_t columns) {
  const std::int64_t tokens = t.batch * t.tokens;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kJoinThreads + threadIdx.x;
  if (i >= tokens || t.samples.is_pad(i, i / t.tokens)) return;
  auto of_block = [&](std::int64_t k) {
    const std::int64_t left = t.channels - k * columns;
    return static_cast<double>(left < columns ? left : columns);
  };
  const double inverse = 1 / static_cast<double>(t.channels);
  double mean = 0, var = 0;
  for (std::int64_t k = 0; k < blocks; ++k) mean += of_block(k) * part_mean[k * tokens + i];
  mean *= inverse;
  for (std::int64_t k = 0; k < blocks; ++k) {
    const double apart = part_mean[k * tokens + i] - mean;
    var += of_block(k) * (part_var[k * tokens + i] + apart * apart);
  }
  t.token_mean[i] = mean;
  t.token_var[i] = static_cast<float>(var * inverse);
}

// Computes the image statistics from the pieces and the batch statistics from the images. A block
// takes kColumns channels, and its groups of threads take the images in turn.
template <class T>
struct Finish {
  Terms t;
  std::int64_t pieces, piece_rows;
  const T* x;
  const float* moments;
};
constexpr int kColumns = 16;

template <class T>
__global__ void __launch_bounds__(ColumnBlock<kColumns>::kThreads)
    switchable_norm_finish_kernel(Finish<T> a) {
  DTN_SHARED(double, shared);
  using Block = ColumnBlock<kColumns>;
  const Block at(shared);
  const std::int64_t channels = a.t.channels, c = at.column;
  const bool live = c < channels;
  double sum = 0;
  for (std::int64_t b = at.group; live && b < a.t.batch; b += Block::kGroups) {
    const float* from = a.moments + b * a.pieces * 2 * channels + c;
    const std::int64_t tokens = a.t.samples.tokens_of(b);
    Moments image{from[0], from[channels]};
#pragma unroll 4
    for (std::int64_t k = 1; k < a.pieces; ++k) {
      const std::int64_t before = k * a.piece_rows, left = tokens - before;
      if (left <= 0) break;
      image.add({static_cast<float>(before),
                 static_cast<float>(left < a.piece_rows ? left : a.piece_rows)},
                from[k * 2 * channels], from[(k * 2 + 1) * channels]);
    }
    const double mean =
        static_cast<double>(cuda::to_float(a.x[b * a.t.tokens * channels + c])) + image.mean;
    a.t.image_mean[b * channels + c] = mean;
    a.t.image_var[b * channels + c] = image.squares / static_cast<float>(tokens);
    sum += static_cast<double>(tokens) * mean;
  }
  if (!a.t.batch_mean) return;
  const double mean = at.sum(sum) / a.t.rows;
  double var = 0;
  for (std::int64_t b = at.group; live && b < a.t.batch; b += Block::kGroups) {
    const double apart = a.t.image_mean[b * channels + c] - mean;
    const auto tokens = static_cast<double>(a.t.samples.tokens_of(b));
    var += tokens * (a.t.image_var[b * channels + c] + apart * apart);
  }
  var = at.sum(var) / a.t.rows;
  if (!live || at.group != 0) return;
  a.t.batch_mean[c] = mean;
  a.t.batch_var[c] = static_cast<float>(var);
}

// One thread per channel of each image, then one per token, then one per running statistic.
constexpr int kFoldThreads = 256;
__global__ void __launch_bounds__(kFoldThreads)
    switchable_norm_fold_kernel(Terms t, Folded to, Running running) {
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kFoldThreads + threadIdx.x;
  const Shares w(t.mean_weight), v(t.var_weight);
  if (i < t.batch * t.channels) {
    const std::int64_t b = i / t.channels, c = i % t.channels;
    const double mean = t.image_mean[i], batch_mean = t.mean_of_batch(c);
    const float pivot = static_cast<float>(mean), batch_var = t.var_of_batch(c);
    to.pivot[i] = pivot;
    to.shift[i] = static_cast<float>(w.in * mean + w.bn * batch_mean +
                                     w.ln * t.token_mean[b * t.tokens] - pivot);
    to.var[i] =
        static_cast<float>(v.in) * t.image_var[i] + static_cast<float>(v.bn) * batch_var + t.eps;
    return;
  }
  i -= t.batch * t.channels;
  if (i < t.batch * t.tokens) {
    const std::int64_t b = i / t.tokens;
    if (t.samples.is_pad(i, b)) return;
    const double base = t.token_mean[b * t.tokens];
    to.token_shift[i] = static_cast<float>(w.ln * (t.token_mean[i] - base));
    to.token_var[i] = static_cast<float>(v.ln) * t.token_var[i];
    return;
  }
  i -= t.batch * t.tokens;
  if (i >= t.channels || !running.next_mean) return;
  const float share = running.momentum, batch_mean = static_cast<float>(t.mean_of_batch(i));
  running.next_mean[i] = (1 - share) * running.next_mean[i] + share * batch_mean;
  running.next_var[i] = (1 - share) * running.next_var[i] + share * t.var_of_batch(i);
}

template <class T>
struct Apply {
  Samples samples;
  std::int64_t channels, pieces, piece_rows;
  const T* x;
  Folded folded;
  const float *weight, *bias;
  T* y;
};

template <class T, int kRun>
__global__ void __launch_bounds__(kMaxThreads) switchable_norm_apply_kernel(Apply<T> a) {
  const Place<kRun> at(a.pieces, a.piece_rows, a.samples, a.channels);
  if (!at.live) return;
  float pivot[kRun], shift[kRun], var[kRun], weight[kRun], bias[kRun];
  const std::int64_t of_image = at.image * a.channels + at.column;
  cuda::load_values(a.folded.pivot + of_image, pivot);
  cuda::load_values(a.folded.shift + of_image, shift);
  cuda::load_values(a.folded.var + of_image, var);
  cuda::load_values(a.weight + at.column, weight);
  cuda::load_values(a.bias + at.column, bias);
  const std::int64_t token = at.image * a.samples.tokens;
  for (std::int64_t row = at.begin; row < at.end; row += kRows) {
    float v[kRows][kRun];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row + r < at.end) {
        cuda::load_values(a.x + (token + row + r) * a.channels + at.column, v[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row + r >= at.end) break;
      const float token_shift = a.folded.token_shift[token + row + r];
      const float token_var = a.folded.token_var[token + row + r];
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        const float centred = (v[r][k] - pivot[k]) - (shift[k] + token_shift);
        v[r][k] = fmaf(centred * rsqrtf(var[k] + token_var), weight[k], bias[k]);
      }
      cuda::store_values(a.y + (token + row + r) * a.channels + at.column, v[r]);
    }
  }
  const float zeros[kRun] = {};
  for (std::int64_t row = at.first_pad; row < a.samples.tokens; row += at.step) {
    cuda::store_values(a.y + (token + row) * a.channels + at.column, zeros);
  }
}

}  // namespace

void fold(CudaQueue& queue, const SwitchableTerms& terms, const Folded& folded,
          const Running& running) {
  Terms t(terms);
  if (terms.is_empty()) t.batch = 0;
  const std::int64_t count =
      t.batch * (t.channels + t.tokens) + (running.next_mean ? t.channels : 0);
  if (count == 0) return;
  launch(queue, {"switchable_norm_fold", {terms.batch, terms.tokens, terms.channels}},
         switchable_norm_fold_kernel, {blocks_for(count, kFoldThreads), kFoldThreads}, t, folded,
         running);
}

}  // namespace switchable

void run(CudaQueue& queue, const SwitchableNormStatistics& args) {
  using namespace switchable;
  const SwitchableTerms& t = args.terms;
  for_cuda_dtype("switchable_norm_statistics", t.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (t.is_empty()) return;
    const Layout layout = Layout::of<T>(t, {t.x});
    const KernelName name{"switchable_norm_statistics", {t.batch, t.tokens, t.channels}};
    const std::int64_t tokens = t.batch * t.tokens;
    auto moments = queue.scratch<float>(t.batch * layout.pieces * 2 * t.channels);
    const bool split = layout.blocks > 1;
    auto part_mean = queue.scratch<double>(split ? layout.blocks * tokens : 1);
    auto part_var = queue.scratch<float>(split ? layout.blocks * tokens : 1);
    const T* x = static_cast<const T*>(t.x);
    const Terms terms(t);
    const Measure<T> measure{.t = terms,
                             .pieces = layout.pieces,
                             .piece_rows = layout.piece_rows,
                             .x = x,
                             .moments = moments.get(),
                             .part_mean = split ? part_mean.get() : terms.token_mean,
                             .part_var = split ? part_var.get() : terms.token_var};
    for_run(layout, [&](auto run) {
      const std::size_t bytes = 2 * (layout.threads / cuda::kWarpSize) * kRows * sizeof(RowPart);
      launch(queue, name, switchable_norm_measure_kernel<T, run>,
             {layout.grid(t), layout.threads, bytes}, measure);
    });
    if (split) {
      const std::int64_t columns = std::int64_t{layout.threads} * layout.run;
      launch(queue, name, switchable_norm_join_kernel,
             {blocks_for(tokens, kJoinThreads), kJoinThreads}, terms, part_mean.get(),
             part_var.get(), std::int64_t{layout.blocks}, columns);
    }
    const Finish<T> finish{.t = terms,
                           .pieces = layout.pieces,
                           .piece_rows = layout.piece_rows,
                           .x = x,
                           .moments = moments.get()};
    using Block = ColumnBlock<kColumns>;
    launch(queue, name, switchable_norm_finish_kernel<T>,
           {blocks_for(t.channels, kColumns), Block::kThreads, Block::kSharedBytes}, finish);
  });
}

void run(CudaQueue& queue, const SwitchableNormForward& args) {
  using namespace switchable;
  const SwitchableTerms& t = args.terms;
  for_cuda_dtype("switchable_norm_forward", t.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto memory = queue.scratch<float>(Folded::size(t));
    const Folded folded(memory.get(), t);
    fold(queue, t, folded,
         {static_cast<float>(args.momentum), static_cast<float*>(args.next_mean),
          static_cast<float*>(args.next_var)});
    if (t.is_empty()) return;
    const Layout layout = Layout::of<T>(t, {t.x, args.y}, {args.weight, args.bias});
    const Apply<T> apply{.samples = Samples(t),
                         .channels = t.channels,
                         .pieces = layout.pieces,
                         .piece_rows = layout.piece_rows,
                         .x = static_cast<const T*>(t.x),
                         .folded = folded,
                         .weight = static_cast<const float*>(args.weight),
                         .bias = static_cast<const float*>(args.bias),
                         .y = static_cast<T*>(args.y)};
    for_run(layout, [&](auto run) {
      launch(queue, {"switchable_norm_forward", {t.batch, t.tokens, t.channels}},
             switchable_norm_apply_kernel<T, run>, {layout.grid(t), layout.threads}, apply);
    });
  });
}

}  // namespace dtn
