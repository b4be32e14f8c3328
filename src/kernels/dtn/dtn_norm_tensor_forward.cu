// Forward pass of DTN on tensor cores; see dtn_norm.h for the formulas and dtn_norm_tensor.cuh for
// the products.
//
// One block processes one image. First its warps read x, one token at a time, for the token
// statistics and, from sums by channel, the pivots. Then each warp takes slices of channels that
// are one 16-byte vector per token. A lane loads the vectors of its eight positions of the 16 x 16
// grid, computes y from x for one channel after the other, and stores the vectors. All of this is
// done in registers, and the warps do not wait for each other.
//
// If x is a residual sum (DtnSum), the first step reads its two terms, and computes and writes x.
//
// Estimated work for 256 images of 14 x 14 x 432 in bfloat16: 43 MB are read and 43 MB written.
// With the residual sum it is 87 MB each, and 96 more warp instructions per token. The second read
// of x hits the first-level cache (an image is 169 KB; 70 KB are shared memory) or, for wider
// models, the second-level cache. A channel takes 22 products of 16 x 8 x 16 and about 230 warp
// instructions. That is nearly 29 instructions per element of the padded grid, 12 of them to split
// numbers into two terms. Instructions are the limit, not memory. With 432 channels, 1.3 times more
// positions than tokens, and 140 instructions per token for the statistics, 132 multiprocessors at
// 1.98 GHz issue instructions for 37 us. Copying 87 MB takes 20 us.
#include <algorithm>
#include <limits>

#include "kernels/dtn/dtn_norm_tensor.cuh"

namespace dtn {
namespace tensor {

bool takes(DType dtype, DtnVariant variant, const DtnSizes& sizes,
           std::initializer_list<const void*> tensors) {
  if (variant != DtnVariant::kPaper || sizes.grid_h > kSide || sizes.grid_w > kSide) return false;
  if (sizes.head_dim % kChannelMultiple != 0 || sizes.channels > kMaxChannels) return false;
  if (!(sizes.eps >= std::numeric_limits<float>::min())) return false;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) return false;
  for (const void* p : tensors) {
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  }
  return true;
}

namespace {

using cuda::kPerVector;
using cuda::kWarpSize;

// Warps per block: limited by the registers of a multiprocessor. With few slices there are half as
// many, so that a second block fits on the multiprocessor.
template <class T>
inline constexpr int kMaxWarps = sizeof(T) == 2 ? 16 : 12;
template <class T>
int warps_for(int slices) {
  return slices >= 3 * kMaxWarps<T> ? kMaxWarps<T> : kMaxWarps<T> / 2;
}

struct ForwardArguments {
  DtnNormForward args;
  DtnSizes sizes;
  DtnAxis rows, columns;
  const float* bases;
};

// Shared memory of a block. column_sums and head_terms use the same memory at different times: each
// kilobyte saved is available to the first-level cache.
struct Shared {
  float2* terms;       // [kPositions] by slot: token mean and variance
  float4* channels;    // [C], see Channel
  float* column_sums;  // [warps, C]
  float2* head_terms;  // [warps, kPositions] by slot, see Head; each lane uses different slots

  __device__ Shared(float4* memory, int channel_count)
      : terms(reinterpret_cast<float2*>(memory)),
        channels(reinterpret_cast<float4*>(terms + kPositions)),
        column_sums(reinterpret_cast<float*>(channels + channel_count)),
        head_terms(reinterpret_cast<float2*>(column_sums)) {}
  static std::size_t bytes(int channel_count, int warps) {
    const std::size_t count = static_cast<std::size_t>(channel_count);
    return sizeof(float2) * kPositions + sizeof(float4) * count +
           static_cast<std::size_t>(warps) *
               std::max(sizeof(float) * count, sizeof(float2) * kPositions);
  }
};

// Parameters of a channel, the same for all tokens.
struct Channel {
  float pivot;
  float offset;  // makes a stored token mean relative to the pivot
  float weight, bias;
};

// One token in the registers of a warp; lanes take 16-byte vectors in turn.
template <class T, int kValues>
struct Token {
  static constexpr int kVectors = kValues / kPerVector<T>;
  unsigned words[kVectors * 4];

  static __device__ __forceinline__ bool is_valid(int vector, int vectors) {
    return vector * kWarpSize + lane_index() < vectors;
  }
  // Loads the `vectors` vectors of x; values beyond them are 0.
  __device__ __forceinline__ void load(const T* x, int vectors) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      uint4 of_lane = make_uint4(0, 0, 0, 0);
      if (is_valid(v, vectors)) {
        of_lane = reinterpret_cast<const uint4*>(x)[v * kWarpSize + lane_index()];
      }
      words[4 * v] = of_lane.x, words[4 * v + 1] = of_lane.y;
      words[4 * v + 2] = of_lane.z, words[4 * v + 3] = of_lane.w;
    }
  }
  // Adds scale * branch to the token, which holds the residual, rounds the sum, and stores it.
  __device__ __forceinline__ void add_branch(const T* branch, float scale, int vectors, T* sum) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!is_valid(v, vectors)) continue;
      const int at = v * kWarpSize + lane_index();
      const uint4 b = reinterpret_cast<const uint4*>(branch)[at];
      const unsigned of_branch[4] = {b.x, b.y, b.z, b.w};
      unsigned(&w)[kVectors * 4] = words;
#pragma unroll
      for (int k = 0; k < 4; ++k) w[4 * v + k] = sum_of(w[4 * v + k], of_branch[k], scale);
      reinterpret_cast<uint4*>(sum)[at] =
          make_uint4(w[4 * v], w[4 * v + 1], w[4 * v + 2], w[4 * v + 3]);
    }
  }
  static __device__ __forceinline__ unsigned sum_of(unsigned x, unsigned branch, float scale) {
    if constexpr (kPerWord<T> == 1) {
      return __float_as_uint(fmaf(scale, __uint_as_float(branch), __uint_as_float(x)));
    }
    return cuda::pack_bfloat16(fmaf(scale, cuda::low_bfloat16(branch), cuda::low_bfloat16(x)),
                               fmaf(scale, cuda::high_bfloat16(branch), cuda::high_bfloat16(x)));
  }
  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (kPerWord<T> == 1) return __uint_as_float(words[i]);
    return i % 2 ? cuda::high_bfloat16(words[i / 2]) : cuda::low_bfloat16(words[i / 2]);
  }
};

// Sums over the channels of two tokens; all lanes get the result. For bfloat16 they are products
// with ones: lanes 4 g to 4 g + 3 hold row g of the left operand for the first token, and row g + 8
// for the second token.
template <class T, int kValues>
__device__ __forceinline__ float2 sum_channels(const Token<T, kValues> (&token)[2]) {
  float sum[2] = {};
  if constexpr (kPerWord<T> == 2) {
    float c[4] = {};
    const unsigned ones[2] = {0x3f803f80u, 0x3f803f80u};
#pragma unroll
    for (int w = 0; w < kValues / 2; w += 2) {
      const unsigned a[4] = {token[0].words[w], token[1].words[w], token[0].words[w + 1],
                             token[1].words[w + 1]};
      cuda::mma_bf16(c, a, ones);
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      sum[k] = c[2 * k];
#pragma unroll
      for (int offset = 4; offset < kWarpSize; offset *= 2) {
        sum[k] += __shfl_xor_sync(cuda::kWholeWarp, sum[k], offset);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kValues; ++i) sum[0] += token[0][i], sum[1] += token[1][i];
    sum[0] = cuda::warp_sum(sum[0]);
    sum[1] = cuda::warp_sum(sum[1]);
  }
  return make_float2(sum[0], sum[1]);
}

// The operands of DtnSum for the image of this block.
template <class T>
struct SumOfImage {
  const T *residual, *branch;
  float scale;
  T* x;

  static __device__ __forceinline__ SumOfImage of(const ForwardArguments& a) {
    const DtnSum& sum = a.args.sum;
    const std::int64_t start = std::int64_t{blockIdx.x} * a.sizes.image;
    return {static_cast<const T*>(sum.residual) + start, static_cast<const T*>(sum.branch) + start,
            sum.scale ? static_cast<const float*>(sum.scale)[blockIdx.x] : 1.0f,
            static_cast<T*>(sum.x) + start};
  }
};

// Computes mean and variance of the tokens, two per warp at a time, and the sums by channel of each
// warp's tokens. For float32 the mean is computed in two steps, so that its error is relative to
// the spread, and squares are relative to the first mean. A bfloat16 x does not need this: it has 8
// significant bits, so its spread is at least 2^-9 of its mean. With kSum it also computes and
// writes x.
template <class T, int kValues, bool kSum>
__device__ __forceinline__ void token_statistics(const ForwardArguments& a, const T* x,
                                                 const Shared& shared) {
  using Values = Token<T, kValues>;
  constexpr bool kTwoSteps = sizeof(T) == 4;
  constexpr int n = kPerVector<T>;
  const int lane = lane_index(), warp = warp_index(), warps = warps_of_block();
  const int channels = static_cast<int>(a.sizes.channels), tokens = a.sizes.tokens;
  const float count = static_cast<float>(channels), inverse = 1 / count;
  const float base = a.bases[blockIdx.x];
  const GridRow row_of_token(a.sizes.grid_w);
  float* mean = static_cast<float*>(a.args.token_mean) + std::int64_t{blockIdx.x} * tokens;
  float* var = static_cast<float*>(a.args.token_var) + std::int64_t{blockIdx.x} * tokens;
  [[maybe_unused]] SumOfImage<T> sum{};
  if constexpr (kSum) sum = SumOfImage<T>::of(a);
  float columns[kValues] = {};
  for (int first = warp; first < tokens; first += 2 * warps) {
    Values token[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int t = first + k * warps, vectors = t < tokens ? channels / n : 0;
      token[k].load((kSum ? sum.residual : x) + t * channels, vectors);
    }
    if constexpr (kSum) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int t = first + k * warps, vectors = t < tokens ? channels / n : 0;
        token[k].add_branch(sum.branch + t * channels, sum.scale, vectors, sum.x + t * channels);
      }
    }
    const float2 sums = sum_channels<T, kValues>(token);
    const float rough[2] = {sums.x * inverse, sums.y * inverse};
    float rest[2] = {}, squares[2] = {};
#pragma unroll
    for (int v = 0; v < Values::kVectors; ++v) {
      const bool valid = Values::is_valid(v, channels / n);  // other values must stay 0
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float centre = valid ? rough[k] : 0.0f;
#pragma unroll
        for (int i = v * n; i < (v + 1) * n; ++i) {
          const float value = token[k][i], d = value - centre;
          columns[i] += value;
          squares[k] += d * d;
          if (kTwoSteps) rest[k] += d;
        }
      }
    }
    const float delta = kTwoSteps ? sum_two(rest[0], rest[1]) * inverse : 0.0f;
    const float square = sum_two(squares[0], squares[1]);
    const int t = first + lane * warps;  // for lanes 0 and 1
    if (lane < 2 && t < tokens) {
      const float2 term = make_float2(((lane ? rough[1] : rough[0]) - base) + delta,
                                      (square - count * delta * delta) * inverse);
      mean[t] = term.x;
      var[t] = term.y;
      const int row = row_of_token(t);
      shared.terms[slot_of(row, t - row * a.sizes.grid_w)] = term;
    }
  }
  auto* sums = reinterpret_cast<float4*>(shared.column_sums + warp * channels);
#pragma unroll
  for (int v = 0; v < Values::kVectors; ++v) {
    if (!Values::is_valid(v, channels / n)) continue;
#pragma unroll
    for (int i = 0; i < n; i += 4) {
      const float* of_lane = columns + v * n + i;
      sums[((v * kWarpSize + lane) * n + i) / 4] =
          make_float4(of_lane[0], of_lane[1], of_lane[2], of_lane[3]);
    }
  }
}

// Computes the channel means of the image from the sums of the warps, and the Channel parameters.
__device__ __forceinline__ void make_channels(const ForwardArguments& a, const Shared& shared) {
  const int channels = static_cast<int>(a.sizes.channels), warps = warps_of_block();
  const float* weight = static_cast<const float*>(a.args.weight);
  const float* bias = static_cast<const float*>(a.args.bias);
  const float base = a.bases[blockIdx.x], inverse = 1 / static_cast<float>(a.sizes.tokens);
  float* pivots = static_cast<float*>(a.args.pivot) + std::int64_t{blockIdx.x} * channels;
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += shared.column_sums[w * channels + c];
    const float pivot = sum * inverse;
    pivots[c] = pivot;
    shared.channels[c] = make_float4(pivot, base - pivot, weight[c], bias[c]);
  }
}

// Parameters of one head. load() also stores the terms of the lane's tokens, l_mu mu_ln and
// l_va var_ln + eps, in shared memory, because registers are scarce.
template <class T>
struct Head {
  MomentPasses<T> passes;
  float own_mean_share, own_var_share;  // 1 - l_mu, 1 - l_va
  float mean_share;

  __device__ __forceinline__ void load(const ForwardArguments& a, int head, const float2* terms,
                                       float2* own_terms) {
    passes = MomentPasses<T>(load_matrix(a.rows, a.rows.p, head),
                             load_matrix(a.columns, a.columns.p, head));
    mean_share = static_cast<const float*>(a.args.lambda_mean)[head];
    const float var_share = static_cast<const float*>(a.args.lambda_var)[head];
    own_mean_share = 1 - mean_share;
    own_var_share = 1 - var_share;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const float2 term = terms[slot_of_element(e)];
      own_terms[slot_of_element(e)] =
          make_float2(mean_share * term.x, var_share * term.y + a.sizes.eps);
    }
  }
};

// Computes y at the lane's tokens, for one channel.
template <class T>
__device__ __forceinline__ Tile normalize(const Head<T>& head, const float2* terms,
                                          const Plane<T>& x, const Channel& channel) {
  Tile squares;
#pragma unroll
  for (int e = 0; e < kElements; ++e) squares(e) = x.centred(e) * x.centred(e);
  const Tile m1 = head.passes.first(x), m2 = head.passes.second(squares);
  const float offset = head.mean_share * channel.offset;
  Tile y;
#pragma unroll
  for (int e = 0; e < kElements; e += 2) {
    const float4 term = *reinterpret_cast<const float4*>(terms + slot_of_element(e));
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const float m = m1(e + b), v = at_least_zero(m2(e + b) - m * m);
      const float mu = head.own_mean_share * m + ((b ? term.z : term.x) + offset);
      const float var = head.own_var_share * v + (b ? term.w : term.y);
      y(e + b) =
          (x.centred(e + b) - mu) * (cuda::rsqrt_approximate(var) * channel.weight) + channel.bias;
    }
  }
  return y;
}

template <class T, int kValues, bool kSum>
__global__ void __launch_bounds__(kMaxWarps<T>* kWarpSize, 1)
    dtn_tensor_forward_kernel(ForwardArguments a) {
  DTN_SHARED(float4, memory);
  constexpr int n = kPerVector<T>;
  const int channels = static_cast<int>(a.sizes.channels);
  const std::int64_t image = std::int64_t{blockIdx.x} * a.sizes.image;
  const T* x = static_cast<const T*>(a.args.x) + image;
  T* y = static_cast<T*>(a.args.y) + image;
  const Shared shared(memory, channels);
  for (int p = static_cast<int>(threadIdx.x); p < kPositions; p += static_cast<int>(blockDim.x)) {
    if (p / kSide >= a.sizes.grid_h || p % kSide >= a.sizes.grid_w) {
      shared.terms[slot_of(p / kSide, p % kSide)] = make_float2(0, 1);
    }
  }
  token_statistics<T, kValues, kSum>(a, x, shared);
  __syncthreads();
  make_channels(a, shared);
  __syncthreads();

  const LaneTokens tokens(a.sizes);
  const Share share(channels / n, warps_of_block());
  float2* const terms = shared.head_terms + warp_index() * kPositions;
  Head<T> head;
  int current = -1;
  for (int s = share.begin; s < share.end; ++s) {
    const int channel = s * n, h = channel / a.sizes.head_dim;
    Vectors<T> vectors;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (tokens.valid(e)) vectors.load(e, x + tokens.offset(e) + channel);
    }
    if (h != current) head.load(a, current = h, shared.terms, terms);
    int c = channel;
    // One channel at a time, because there are not enough registers for more.
#pragma unroll(Vectors <T>::kUnrolled)
    for (int w = 0; w < Vectors<T>::kWords; ++w) {
#pragma unroll 1
      for (int k = 0; k < kPerWord<T>; ++k, ++c) {
        forget_memory();  // reload the token terms from shared memory
        const float4 of_channel = shared.channels[c];
        const Channel terms_of_channel{of_channel.x, of_channel.y, of_channel.z, of_channel.w};
        const Plane<T> plane = plane_of<T>(vectors.front(), 0, terms_of_channel.pivot);
        vectors.replace_front(normalize(head, terms, plane, terms_of_channel));
      }
      vectors.next_word();
    }
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (tokens.valid(e)) vectors.store(e, y + tokens.offset(e) + channel);
    }
  }
}

}  // namespace
}  // namespace tensor

bool tensor_cores_take(const DtnNormForward& args) {
  const DtnSizes sizes(args);
  if (args.sum.residual && sizes.image != sizes.tokens * sizes.channels) return false;
  return tensor::takes(args.dtype, args.variant, sizes,
                       {args.x, args.y, args.sum.residual, args.sum.branch});
}

void run_tensor(CudaQueue& queue, const DtnNormForward& args) {
  using namespace tensor;
  const DtnSizes sizes(args);
  const DtnPrepared prepared = prepare(queue, args, 0, sizes.heads);
  const ForwardArguments a{args, sizes, prepared.positions.rows, prepared.positions.columns,
                           prepared.bases.get()};
  const int channels = static_cast<int>(sizes.channels);
  for_cuda_dtype("dtn_tensor_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int warps = warps_for<T>(channels / kPerVector<T>);
    auto launch_kernel = [&](auto values) {
      constexpr int kValues = decltype(values)::value;
      const auto kernel = args.sum.residual ? dtn_tensor_forward_kernel<T, kValues, true>
                                            : dtn_tensor_forward_kernel<T, kValues, false>;
      launch(queue,
             {"dtn_tensor_forward",
              {sizes.batch, sizes.grid_h, sizes.grid_w, sizes.channels, sizes.heads}},
             kernel,
             {dim3(static_cast<unsigned>(sizes.batch)), static_cast<unsigned>(warps * kWarpSize),
              Shared::bytes(channels, warps)},
             a);
    };
    const int values = (channels + kWarpSize - 1) / kWarpSize;
    if (values <= 8) return launch_kernel(std::integral_constant<int, 8>());
    if (values <= 16) return launch_kernel(std::integral_constant<int, 16>());
    launch_kernel(std::integral_constant<int, 32>());
  });
}

}  // namespace dtn
