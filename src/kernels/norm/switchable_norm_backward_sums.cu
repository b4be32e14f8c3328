// Switchable normalization, backward, first step; see switchable_norm.h for the formulas and
// switchable_norm_cuda.cuh for the layout of an image over blocks.
//
// Reads x and dy once. Sums over the tokens of a channel stay in registers. Sums over the channels
// of a token are added up by warps and blocks, for four rows at a time. The few sums over images,
// pieces and tokens for the gradients of the mixture weights are float64.
#include "kernels/norm/switchable_norm_cuda.cuh"

namespace dtn {
namespace switchable {
namespace {

using cuda::kWarpSize;

constexpr int kTokenSums = 2;    // dmu, dvar
constexpr int kChannelSums = 4;  // dmu and dvar without the weight, dweight, dbias

template <class T>
struct Sums {
  Samples samples;
  std::int64_t batch, channels, pieces, piece_rows;
  const T *x, *dy;
  Folded folded;
  const float* weight;
  float* pieces_out;  // [B pieces, kChannelSums, C]
  float* tokens_out;  // [blocks, B T, kTokenSums]
};

// Sums over the tokens of a piece for a thread's channels, and the terms that they need.
template <int kRun>
struct ChannelSums {
  float pivot[kRun] = {}, shift[kRun] = {}, var[kRun] = {}, weight[kRun] = {};
  float dmu[kRun] = {}, dvar[kRun] = {}, dweight[kRun] = {}, dbias[kRun] = {};

  template <class T>
  __device__ __forceinline__ ChannelSums(const Sums<T>& a, const Place<kRun>& at) {
    if (!at.live) return;
    const std::int64_t of_image = at.image * a.channels + at.column;
    cuda::load_values(a.folded.pivot + of_image, pivot);
    cuda::load_values(a.folded.shift + of_image, shift);
    cuda::load_values(a.folded.var + of_image, var);
    cuda::load_values(a.weight + at.column, weight);
  }

  // Adds one token to the sums, and adds these channels to the sums of the token.
  __device__ __forceinline__ void add(const float (&x)[kRun], const float (&dy)[kRun],
                                      float token_shift, float token_var, float& token_dmu,
                                      float& token_dvar) {
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      const float rstd = rsqrtf(var[k] + token_var);
      const float centred = (x[k] - pivot[k]) - (shift[k] + token_shift);
      const float scaled = dy[k] * rstd, dot = scaled * centred, cubed = dot * rstd * rstd;
      dmu[k] += scaled;
      dvar[k] += cubed;
      dweight[k] += dot;
      dbias[k] += dy[k];
      token_dmu = fmaf(weight[k], scaled, token_dmu);
      token_dvar = fmaf(weight[k], cubed, token_dvar);
    }
  }

  // `to` has kChannelSums rows.
  __device__ __forceinline__ void store(float* to, std::int64_t channels) const {
    cuda::store_values(to, dmu);
    cuda::store_values(to + channels, dvar);
    cuda::store_values(to + 2 * channels, dweight);
    cuda::store_values(to + 3 * channels, dbias);
  }
};

template <class T, int kRun>
__global__ void __launch_bounds__(kMaxThreads) switchable_norm_sums_kernel(Sums<T> a) {
  constexpr int kSums = kRows * kTokenSums;
  DTN_SHARED(float, shared);  // [2, warps, kSums], double-buffered over the batches of rows
  const Place<kRun> at(a.pieces, a.piece_rows, a.samples, a.channels);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  ChannelSums<kRun> of_channels(a, at);
  const std::int64_t token = at.image * a.samples.tokens;

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
      const std::int64_t i = token + row + r;
      of_channels.add(x[r], dy[r], a.folded.token_shift[i], a.folded.token_var[i],
                      of_tokens[kTokenSums * r], of_tokens[kTokenSums * r + 1]);
    }
    const float of_lane = warp_sums(of_tokens, lane);
    constexpr int kLanes = kWarpSize / kSums;
    if (lane % kLanes == 0) shared[(turn * warps + warp) * kSums + lane / kLanes] = of_lane;
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x);
    if (i < kSums && row + i / kTokenSums < at.end) {
      float sum = 0;
      for (int w = 0; w < warps; ++w) sum += shared[(turn * warps + w) * kSums + i];
      const std::int64_t at_token = blockIdx.y * a.batch * a.samples.tokens + token + row;
      a.tokens_out[at_token * kTokenSums + i] = sum;
    }
  }

  if (!at.live) return;
  of_channels.store(a.pieces_out + blockIdx.x * kChannelSums * a.channels + at.column, a.channels);
}

// Sums of gradients, and of gradients times statistics, over one kind of statistics.
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
  // Sums over the block; every thread gets the result. `scratch` holds one value per warp.
  __device__ __forceinline__ Products of_block(double* scratch) const {
    Products p;
    p.dmu = cuda::block_sum(dmu, scratch);
    p.mean = cuda::block_sum(mean, scratch);
    p.dvar = cuda::block_sum(dvar, scratch);
    p.var = cuda::block_sum(var, scratch);
    return p;
  }
};

// Computes the token gradients from the sums of the blocks that share the channels. A thread takes
// kTokensPerThread tokens in turn.
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
    if (t.samples.is_pad(i, i / t.tokens)) continue;
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

// Computes the image gradients from the pieces and the batch gradients from the images. A block
// takes kColumns channels, and its groups of threads take the images in turn.
struct Finish {
  Terms t;
  std::int64_t pieces;
  const float* sums;  // [B pieces, kChannelSums, C]
  const float* weight;
  float *image_dmean, *image_dvar, *batch_dmean, *batch_dvar;
  float *dweight, *dbias;
  Products *of_images, *of_batch;  // one per block
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
  static_assert(kColumns <= kWarpSize);  // group 0 lies in the first warp
  if (threadIdx.x >= kWarpSize) return;
  const Products of_channels = channel.of_warp();
  if (threadIdx.x != 0) return;
  a.of_images[blockIdx.x] = of_images;
  a.of_batch[blockIdx.x] = of_channels;
}

//    dlogits[k] += w_k (g_k - sum_j w_j g_j)
__device__ void add_logit_gradients(const float* logits, double in, double ln, double bn,
                                    float* dlogits) {
  if (!dlogits) return;
  const Shares w(logits);
  const double mean = w.in * in + w.ln * ln + w.bn * bn;
  dlogits[0] += static_cast<float>(w.in * (in - mean));
  dlogits[1] += static_cast<float>(w.ln * (ln - mean));
  dlogits[2] += static_cast<float>(w.bn * (bn - mean));
}

// Adds the gradients of the mixture weights, in one block. The statistics are taken relative to the
// batch averages over the channels. The gradient of the softmax stays the same, but it is more
// accurate: the three kinds of statistics differ little compared with their size.
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

// Writes the sums of the pieces, [B pieces, kChannelSums, C], and of the tokens,
// [blocks, B T, kTokenSums].
template <class T>
void add_up(CudaQueue& queue, const KernelName& name, const SwitchableNormBackwardSums& args,
            const Layout& layout, float* pieces, float* tokens) {
  const SwitchableTerms& t = args.terms;
  auto memory = queue.scratch<float>(Folded::size(t));
  const Folded folded(memory.get(), t);
  fold(queue, t, folded);
  const Sums<T> sums{.samples = Samples(t),
                     .batch = t.batch,
                     .channels = t.channels,
                     .pieces = layout.pieces,
                     .piece_rows = layout.piece_rows,
                     .x = static_cast<const T*>(t.x),
                     .dy = static_cast<const T*>(args.dy),
                     .folded = folded,
                     .weight = static_cast<const float*>(args.weight),
                     .pieces_out = pieces,
                     .tokens_out = tokens};
  for_run(layout, [&](auto run) {
    const std::size_t warps = layout.threads / kWarpSize;
    launch(queue, name, switchable_norm_sums_kernel<T, run>,
           {layout.grid(t), layout.threads, 2 * warps * kRows * kTokenSums * sizeof(float)}, sums);
  });
}

// Computes the outputs from these sums.
void finish(CudaQueue& queue, const KernelName& name, const SwitchableNormBackwardSums& args,
            const Layout& layout, const float* pieces, const float* tokens) {
  const Terms t(args.terms);
  const dim3 token_blocks = blocks_for(t.batch * t.tokens, kTokensPerBlock);
  const dim3 column_blocks = blocks_for(t.channels, kColumns);
  auto products = queue.scratch<Products>(token_blocks.x + 2 * column_blocks.x);
  Products* of_images = products.get();
  Products* of_batch = of_images + column_blocks.x;
  Products* of_tokens = of_batch + column_blocks.x;
  launch(queue, name, switchable_norm_tokens_kernel,
         {token_blocks, kTokenThreads, kTokenThreads / kWarpSize * sizeof(double)}, t, tokens,
         std::int64_t{layout.blocks}, static_cast<float*>(args.token_dmean),
         static_cast<float*>(args.token_dvar), of_tokens);
  const Finish of_channel{.t = t,
                          .pieces = layout.pieces,
                          .sums = pieces,
                          .weight = static_cast<const float*>(args.weight),
                          .image_dmean = static_cast<float*>(args.image_dmean),
                          .image_dvar = static_cast<float*>(args.image_dvar),
                          .batch_dmean = static_cast<float*>(args.batch_dmean),
                          .batch_dvar = static_cast<float*>(args.batch_dvar),
                          .dweight = static_cast<float*>(args.dweight),
                          .dbias = static_cast<float*>(args.dbias),
                          .of_images = of_images,
                          .of_batch = of_batch};
  using Block = ColumnBlock<kColumns>;
  launch(queue, name, switchable_norm_finish_sums_kernel,
         {column_blocks, Block::kThreads, Block::kSharedBytes}, of_channel);
  if (!args.dmean_weight && !args.dvar_weight) return;
  launch(queue, name, switchable_norm_shares_kernel,
         {1, kShareThreads, kShareThreads / kWarpSize * sizeof(double)}, t, of_images, of_tokens,
         of_batch, std::int64_t{column_blocks.x}, std::int64_t{token_blocks.x},
         static_cast<float*>(args.dmean_weight), static_cast<float*>(args.dvar_weight));
}

}  // namespace
}  // namespace switchable

void run(CudaQueue& queue, const SwitchableNormBackwardSums& args) {
  using namespace switchable;
  const SwitchableTerms& t = args.terms;
  for_cuda_dtype("switchable_norm_backward_sums", t.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (t.is_empty()) return;
    const KernelName name{"switchable_norm_backward_sums", {t.batch, t.tokens, t.channels}};
    const Layout layout = Layout::of<T>(t, {t.x, args.dy}, {args.weight});
    auto pieces = queue.scratch<float>(t.batch * layout.pieces * kChannelSums * t.channels);
    auto tokens = queue.scratch<float>(layout.blocks * t.batch * t.tokens * kTokenSums);
    add_up<T>(queue, name, args, layout, pieces.get(), tokens.get());
    finish(queue, name, args, layout, pieces.get(), tokens.get());
  });
}

}  // namespace dtn
