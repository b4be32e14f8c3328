// Switchable normalization, backward; see switchable_norm.h for the formulas and
// switchable_norm_cuda.cuh for how an image is laid over blocks.
//
// Both steps read x and dy once, the second writes dx. In the first, what is summed over the tokens
// of a channel stays in registers, and what is summed over the channels of a token is added up by
// warps and blocks, for four rows at a time. Sums over images, pieces and tokens that go into the
// two weights of the mixture are float64, and few.
#include "kernels/norm/switchable_norm_cuda.cuh"

namespace dtn {
namespace switchable {
namespace {

using cuda::kWarpSize;

constexpr int kTokenSums = 2;    // of dmu, of dvar
constexpr int kChannelSums = 4;  // of dmu and dvar before the weight, for dweight, for dbias

template <class T>
struct Sums {
  std::int64_t batch, tokens, channels, pieces, piece_rows;
  const T *x, *dy;
  Folded folded;
  const float* weight;
  float* pieces_out;  // [B pieces, kChannelSums, C]
  float* tokens_out;  // [blocks, B T, kTokenSums]
};

template <class T, int kRun>
__global__ void __launch_bounds__(kMostThreads) switchable_norm_sums_kernel(Sums<T> a) {
  constexpr int kSums = kRows * kTokenSums;
  DTN_SHARED(float, shared);  // [2, warps, kSums], in turn for one batch of rows and the next
  const Place<kRun> at(a.pieces, a.piece_rows, a.tokens, a.channels);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  float pivot[kRun] = {}, shift[kRun] = {}, var[kRun] = {}, weight[kRun] = {};
  if (at.live) {
    const std::int64_t of_image = at.image * a.channels + at.column;
    cuda::load_values(a.folded.pivot + of_image, pivot);
    cuda::load_values(a.folded.shift + of_image, shift);
    cuda::load_values(a.folded.var + of_image, var);
    cuda::load_values(a.weight + at.column, weight);
  }
  float dmu[kRun] = {}, dvar[kRun] = {}, dweight[kRun] = {}, dbias[kRun] = {};
  const std::int64_t token = at.image * a.tokens;

  for (std::int64_t row = at.begin, turn = 0; row < at.end; row += kRows, turn ^= 1) {
    float x[kRows][kRun] = {}, dy[kRows][kRun] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (!at.live || row + r >= at.end) continue;
      const std::int64_t i = (token + row + r) * a.channels + at.column;
      cuda::load_values(a.x + i, x[r]);
      cuda::load_values(a.dy + i, dy[r]);
    }
    float of_tokens[kSums] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (!at.live || row + r >= at.end) continue;
      const float token_shift = a.folded.token_shift[token + row + r];
      const float token_var = a.folded.token_var[token + row + r];
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        const float rstd = rsqrtf(var[k] + token_var);
        const float centred = (x[r][k] - pivot[k]) - (shift[k] + token_shift);
        const float scaled = dy[r][k] * rstd, dot = scaled * centred, cubed = dot * rstd * rstd;
        dmu[k] += scaled;
        dvar[k] += cubed;
        dweight[k] += dot;
        dbias[k] += dy[r][k];
        of_tokens[kTokenSums * r] = fmaf(weight[k], scaled, of_tokens[kTokenSums * r]);
        of_tokens[kTokenSums * r + 1] = fmaf(weight[k], cubed, of_tokens[kTokenSums * r + 1]);
      }
    }
    const float of_lane = warp_sums(of_tokens, lane);
    constexpr int kLanes = kWarpSize / kSums;
    if (lane % kLanes == 0) shared[(turn * warps + warp) * kSums + lane / kLanes] = of_lane;
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x);
    if (i < kSums && row + i / kTokenSums < at.end) {
      float sum = 0;
      for (int w = 0; w < warps; ++w) sum += shared[(turn * warps + w) * kSums + i];
      const std::int64_t at_token = blockIdx.y * a.batch * a.tokens + token + row;
      a.tokens_out[at_token * kTokenSums + i] = sum;
    }
  }

  if (!at.live) return;
  float* to = a.pieces_out + blockIdx.x * kChannelSums * a.channels + at.column;
  cuda::store_values(to, dmu);
  cuda::store_values(to + a.channels, dvar);
  cuda::store_values(to + 2 * a.channels, dweight);
  cuda::store_values(to + 3 * a.channels, dbias);
}

// Sums of gradients, and of gradients times statistics, of one kind.
struct Products {
  double dmu = 0, mean = 0, dvar = 0, var = 0;

  __device__ __forceinline__ void add(float dmu_of, double mean_of, float dvar_of, float var_of) {
    dmu += dmu_of;
    mean += dmu_of * mean_of;
    dvar += dvar_of;
    var += static_cast<double>(dvar_of) * var_of;
  }
  __device__ __forceinline__ void add(const Products& p) {
    dmu += p.dmu, mean += p.mean, dvar += p.dvar, var += p.var;
  }
  __device__ __forceinline__ Products of_warp() const {
    return {cuda::warp_sum(dmu), cuda::warp_sum(mean), cuda::warp_sum(dvar), cuda::warp_sum(var)};
  }
  // Over the block; every thread gets them. `scratch` holds a value per warp.
  __device__ __forceinline__ Products of_block(double* scratch) const {
    Products p;
    p.dmu = cuda::block_sum(dmu, scratch);
    p.mean = cuda::block_sum(mean, scratch);
    p.dvar = cuda::block_sum(dvar, scratch);
    p.var = cuda::block_sum(var, scratch);
    return p;
  }
};

// The gradients of tokens, from the sums of the blocks that share their channels. A thread per
// token, in turn.
constexpr int kTokenThreads = 256, kTokensPerThread = 8;
constexpr std::int64_t kTokensPerBlock = kTokenThreads * kTokensPerThread;
__global__ void __launch_bounds__(kTokenThreads)
    switchable_norm_tokens_kernel(Terms t, const float* sums, std::int64_t blocks, float* dmean,
                                  float* dvar, Products* products) {
  DTN_SHARED(double, scratch);
  const std::int64_t tokens = t.batch * t.tokens;
  Products own;
  for (int k = 0; k < kTokensPerThread; ++k) {
    const std::int64_t i =
        blockIdx.x * kTokensPerBlock + std::int64_t{k} * kTokenThreads + threadIdx.x;
    if (i >= tokens) break;
    float mean = 0, var = 0;
    for (std::int64_t j = 0; j < blocks; ++j) {
      mean += sums[(j * tokens + i) * kTokenSums];
      var += sums[(j * tokens + i) * kTokenSums + 1];
    }
    dmean[i] = -mean;
    dvar[i] = -0.5f * var;
    own.add(-mean, t.token_mean[i], -0.5f * var, t.token_var[i]);
  }
  const Products total = own.of_block(scratch);
  if (threadIdx.x == 0) products[blockIdx.x] = total;
}

// The images from their pieces, and the batch from its images. A block takes kColumns channels, its
// groups of threads the images in turn.
struct Finish {
  Terms t;
  std::int64_t pieces;
  const float* sums;  // [B pieces, kChannelSums, C]
  const float* weight;
  float *image_dmean, *image_dvar, *batch_dmean, *batch_dvar;
  float *dweight, *dbias;
  Products *of_images, *of_batch;  // of each block
};
constexpr int kColumns = 16;

__global__ void __launch_bounds__(ColumnBlock<kColumns>::kThreads)
    switchable_norm_finish_sums_kernel(Finish a) {
  DTN_SHARED(double, shared);
  using Block = ColumnBlock<kColumns>;
  const Block at(shared);
  const std::int64_t channels = a.t.channels, c = at.column;
  const bool live = c < channels;
  const float weight = live ? a.weight[c] : 0.0f;
  double of_batch[kChannelSums] = {};
  Products own;
  for (std::int64_t b = at.group; live && b < a.t.batch; b += Block::kGroups) {
    const float* from = a.sums + b * a.pieces * kChannelSums * channels + c;
    float sums[kChannelSums] = {};
#pragma unroll 2
    for (std::int64_t k = 0; k < a.pieces; ++k) {
#pragma unroll
      for (int s = 0; s < kChannelSums; ++s) sums[s] += from[(k * kChannelSums + s) * channels];
    }
    const std::int64_t i = b * channels + c;
    const float dmean = -weight * sums[0], dvar = -0.5f * weight * sums[1];
    a.image_dmean[i] = dmean;
    a.image_dvar[i] = dvar;
    own.add(dmean, a.t.image_mean[i], dvar, a.t.image_var[i]);
    of_batch[0] += dmean;
    of_batch[1] += dvar;
    of_batch[2] += sums[2];
    of_batch[3] += sums[3];
  }
#pragma unroll
  for (int s = 0; s < kChannelSums; ++s) of_batch[s] = at.sum(of_batch[s]);
  const Products of_images = own.of_block(shared);
  Products channel;
  if (live && at.group == 0) {
    const float dmean = static_cast<float>(of_batch[0]), dvar = static_cast<float>(of_batch[1]);
    a.batch_dmean[c] = dmean;
    a.batch_dvar[c] = dvar;
    if (a.dweight) a.dweight[c] += static_cast<float>(of_batch[2]);
    if (a.dbias) a.dbias[c] += static_cast<float>(of_batch[3]);
    channel.add(dmean, a.t.mean_of_batch(c), dvar, a.t.var_of_batch(c));
  }
  static_assert(kColumns <= kWarpSize);  // the threads of group 0 are of the first warp
  if (threadIdx.x >= kWarpSize) return;
  const Products of_channels = channel.of_warp();
  if (threadIdx.x != 0) return;
  a.of_images[blockIdx.x] = of_images;
  a.of_batch[blockIdx.x] = of_channels;
}

// dlogits[k] += w_k (g_k - sum_j w_j g_j)
__device__ void add_logit_gradients(const float* logits, double in, double ln, double bn,
                                    float* dlogits) {
  if (!dlogits) return;
  const Shares w(logits);
  const double mean = w.in * in + w.ln * ln + w.bn * bn;
  dlogits[0] += static_cast<float>(w.in * (in - mean));
  dlogits[1] += static_cast<float>(w.ln * (ln - mean));
  dlogits[2] += static_cast<float>(w.bn * (bn - mean));
}

// The weights of the mixture; one block. The statistics are counted from averages over the channels
// of the batch, which the softmax does not notice, but the digits do: what differs between the
// three kinds is small beside what they share.
constexpr int kShareThreads = 256;
__global__ void __launch_bounds__(kShareThreads)
    switchable_norm_shares_kernel(Terms t, const Products* of_images, const Products* of_tokens,
                                  const Products* of_batch, std::int64_t image_parts,
                                  std::int64_t token_parts, float* dmean_weight,
                                  float* dvar_weight) {
  DTN_SHARED(double, scratch);
  auto sum = [&](const Products* parts, std::int64_t count) {
    Products own;
    for (std::int64_t i = threadIdx.x; i < count; i += kShareThreads) own.add(parts[i]);
    return own.of_block(scratch);
  };
  const Products in = sum(of_images, image_parts), ln = sum(of_tokens, token_parts);
  const Products bn = sum(of_batch, image_parts);
  double mean = 0, var = 0;
  for (std::int64_t c = threadIdx.x; c < t.channels; c += kShareThreads) {
    mean += t.mean_of_batch(c);
    var += t.var_of_batch(c);
  }
  mean = cuda::block_sum(mean, scratch) / static_cast<double>(t.channels);
  var = cuda::block_sum_once(var, scratch) / static_cast<double>(t.channels);
  if (threadIdx.x != 0) return;
  add_logit_gradients(t.mean_weight, in.mean - in.dmu * mean, ln.mean - ln.dmu * mean,
                      bn.mean - bn.dmu * mean, dmean_weight);
  add_logit_gradients(t.var_weight, in.var - in.dvar * var, ln.var - ln.dvar * var,
                      bn.var - bn.dvar * var, dvar_weight);
}

// With u = x - pivot,
//   dx = dy weight r + u slope[b,c] + offset[b,c] + (u + reach[b,c]) token_slope[b,t]
//        + token_offset[b,t] + dx_add:
// u + reach is x less the mean of the image's first token.
struct FoldedGradient {
  float *slope, *offset, *reach;      // [B, C]
  float *token_slope, *token_offset;  // [B, T]

  FoldedGradient(float* memory, const SwitchableTerms& t)
      : slope(memory),
        offset(slope + t.batch * t.channels),
        reach(offset + t.batch * t.channels),
        token_slope(reach + t.batch * t.channels),
        token_offset(token_slope + t.batch * t.tokens) {}
};

struct FoldGradient {
  Terms t;
  const float* pivot;
  const float *token_dmean, *token_dvar, *image_dmean, *image_dvar, *batch_dmean, *batch_dvar;
  double positions;
  FoldedGradient to;
};

// A thread per channel of an image, then per token of one.
constexpr int kFoldThreads = 256;
__global__ void __launch_bounds__(kFoldThreads)
    switchable_norm_fold_gradient_kernel(FoldGradient a) {
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kFoldThreads + threadIdx.x;
  const Shares w(a.t.mean_weight), v(a.t.var_weight);
  if (i < a.t.batch * a.t.channels) {
    const std::int64_t b = i / a.t.channels, c = i % a.t.channels;
    const double pivot = a.pivot[i], tokens = static_cast<double>(a.t.tokens);
    double slope = 2 * v.in / tokens * a.image_dvar[i];
    double offset = w.in / tokens * a.image_dmean[i] - slope * (a.t.image_mean[i] - pivot);
    if (a.t.batch_mean) {
      const double of_batch = 2 * v.bn / a.positions * a.batch_dvar[c];
      slope += of_batch;
      offset += w.bn / a.positions * a.batch_dmean[c] - of_batch * (a.t.batch_mean[c] - pivot);
    }
    a.to.slope[i] = static_cast<float>(slope);
    a.to.offset[i] = static_cast<float>(offset);
    a.to.reach[i] = static_cast<float>(pivot - a.t.token_mean[b * a.t.tokens]);
    return;
  }
  i -= a.t.batch * a.t.channels;
  if (i >= a.t.batch * a.t.tokens) return;
  const double channels = static_cast<double>(a.t.channels);
  const double base = a.t.token_mean[i / a.t.tokens * a.t.tokens];
  const double slope = 2 * v.ln / channels * a.token_dvar[i];
  a.to.token_slope[i] = static_cast<float>(slope);
  a.to.token_offset[i] =
      static_cast<float>(w.ln / channels * a.token_dmean[i] - slope * (a.t.token_mean[i] - base));
}

template <class T>
struct Backward {
  std::int64_t tokens, channels, pieces, piece_rows;
  const T *x, *dy, *dx_add;
  Folded folded;
  FoldedGradient gradient;
  const float* weight;
  T* dx;
};

template <class T, int kRun>
__global__ void __launch_bounds__(kMostThreads) switchable_norm_backward_kernel(Backward<T> a) {
  const Place<kRun> at(a.pieces, a.piece_rows, a.tokens, a.channels);
  if (!at.live) return;
  float pivot[kRun], var[kRun], weight[kRun], slope[kRun], offset[kRun], reach[kRun];
  const std::int64_t of_image = at.image * a.channels + at.column;
  cuda::load_values(a.folded.pivot + of_image, pivot);
  cuda::load_values(a.folded.var + of_image, var);
  cuda::load_values(a.weight + at.column, weight);
  cuda::load_values(a.gradient.slope + of_image, slope);
  cuda::load_values(a.gradient.offset + of_image, offset);
  cuda::load_values(a.gradient.reach + of_image, reach);
  const std::int64_t token = at.image * a.tokens;
  for (std::int64_t row = at.begin; row < at.end; row += kRows) {
    float x[kRows][kRun], dy[kRows][kRun], dx[kRows][kRun] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row + r >= at.end) break;
      const std::int64_t i = (token + row + r) * a.channels + at.column;
      cuda::load_values(a.x + i, x[r]);
      cuda::load_values(a.dy + i, dy[r]);
      if (a.dx_add) cuda::load_values(a.dx_add + i, dx[r]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row + r >= at.end) break;
      const std::int64_t i = token + row + r;
      const float token_var = a.folded.token_var[i];
      const float token_slope = a.gradient.token_slope[i];
      const float token_offset = a.gradient.token_offset[i];
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        const float u = x[r][k] - pivot[k];
        float sum = fmaf(u, slope[k], offset[k] + token_offset);
        sum = fmaf(u + reach[k], token_slope, sum);
        sum = fmaf(dy[r][k] * weight[k], rsqrtf(var[k] + token_var), sum);
        dx[r][k] += sum;
      }
      cuda::store_values(a.dx + i * a.channels + at.column, dx[r]);
    }
  }
}

}  // namespace
}  // namespace switchable

void run(CudaQueue& queue, const SwitchableNormBackwardSums& args) {
  using namespace switchable;
  const SwitchableTerms& t = args.terms;
  for_cuda_dtype("switchable_norm_backward_sums", t.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (is_empty(t)) return;
    const KernelName name{"switchable_norm_backward_sums", {t.batch, t.tokens, t.channels}};
    auto memory = queue.scratch<float>(Folded::size(t));
    const Folded folded(memory.get(), t);
    fold(queue, t, folded);

    const Layout layout = Layout::of<T>(t, {t.x, args.dy}, {args.weight});
    const float* weight = static_cast<const float*>(args.weight);
    auto pieces = queue.scratch<float>(t.batch * layout.pieces * kChannelSums * t.channels);
    auto tokens = queue.scratch<float>(layout.blocks * t.batch * t.tokens * kTokenSums);
    const Sums<T> sums{t.batch,
                       t.tokens,
                       t.channels,
                       layout.pieces,
                       layout.piece_rows,
                       static_cast<const T*>(t.x),
                       static_cast<const T*>(args.dy),
                       folded,
                       weight,
                       pieces.get(),
                       tokens.get()};
    for_run(layout, [&](auto run) {
      const std::size_t warps = layout.threads / kWarpSize;
      launch(queue, name, switchable_norm_sums_kernel<T, run>,
             {layout.grid(t), layout.threads, 2 * warps * kRows * kTokenSums * sizeof(float)},
             sums);
    });

    const Terms terms(t);
    const dim3 token_blocks = blocks_for(t.batch * t.tokens, kTokensPerBlock);
    const dim3 column_blocks = blocks_for(t.channels, kColumns);
    auto products = queue.scratch<Products>(token_blocks.x + 2 * column_blocks.x);
    Products* of_images = products.get();
    Products* of_batch = of_images + column_blocks.x;
    Products* of_tokens = of_batch + column_blocks.x;
    launch(queue, name, switchable_norm_tokens_kernel,
           {token_blocks, kTokenThreads, kTokenThreads / kWarpSize * sizeof(double)}, terms,
           tokens.get(), std::int64_t{layout.blocks}, static_cast<float*>(args.token_dmean),
           static_cast<float*>(args.token_dvar), of_tokens);
    const Finish finish{terms,
                        layout.pieces,
                        pieces.get(),
                        weight,
                        static_cast<float*>(args.image_dmean),
                        static_cast<float*>(args.image_dvar),
                        static_cast<float*>(args.batch_dmean),
                        static_cast<float*>(args.batch_dvar),
                        static_cast<float*>(args.dweight),
                        static_cast<float*>(args.dbias),
                        of_images,
                        of_batch};
    using Block = ColumnBlock<kColumns>;
    launch(queue, name, switchable_norm_finish_sums_kernel,
           {column_blocks, Block::kThreads, Block::kSharedBytes}, finish);
    if (!args.dmean_weight && !args.dvar_weight) return;
    launch(queue, name, switchable_norm_shares_kernel,
           {1, kShareThreads, kShareThreads / kWarpSize * sizeof(double)}, terms, of_images,
           of_tokens, of_batch, std::int64_t{column_blocks.x}, std::int64_t{token_blocks.x},
           static_cast<float*>(args.dmean_weight), static_cast<float*>(args.dvar_weight));
  });
}

void run(CudaQueue& queue, const SwitchableNormBackward& args) {
  using namespace switchable;
  const SwitchableTerms& t = args.terms;
  for_cuda_dtype("switchable_norm_backward", t.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (is_empty(t)) return;
    const KernelName name{"switchable_norm_backward", {t.batch, t.tokens, t.channels}};
    auto memory = queue.scratch<float>(Folded::size(t));
    auto gradient_memory = queue.scratch<float>(Folded::size(t));
    const Folded folded(memory.get(), t);
    const FoldedGradient gradient(gradient_memory.get(), t);
    fold(queue, t, folded);
    const FoldGradient fold_gradient{Terms(t),
                                     folded.pivot,
                                     static_cast<const float*>(args.token_dmean),
                                     static_cast<const float*>(args.token_dvar),
                                     static_cast<const float*>(args.image_dmean),
                                     static_cast<const float*>(args.image_dvar),
                                     static_cast<const float*>(args.batch_dmean),
                                     static_cast<const float*>(args.batch_dvar),
                                     static_cast<double>(args.positions),
                                     gradient};
    launch(queue, name, switchable_norm_fold_gradient_kernel,
           {blocks_for(t.batch * (t.channels + t.tokens), kFoldThreads), kFoldThreads},
           fold_gradient);
    const Layout layout = Layout::of<T>(t, {t.x, args.dy, args.dx_add, args.dx}, {args.weight});
    const Backward<T> backward{t.tokens,
                               t.channels,
                               layout.pieces,
                               layout.piece_rows,
                               static_cast<const T*>(t.x),
                               static_cast<const T*>(args.dy),
                               static_cast<const T*>(args.dx_add),
                               folded,
                               gradient,
                               static_cast<const float*>(args.weight),
                               static_cast<T*>(args.dx)};
    for_run(layout, [&](auto run) {
      launch(queue, name, switchable_norm_backward_kernel<T, run>, {layout.grid(t), layout.threads},
             backward);
    });
  });
}

}  // namespace dtn
