// Backward pass of DTN on tensor cores; see dtn_norm.h for the formulas and dtn_norm_tensor.cuh for
// the products.
//
// One block processes one image, and each of its warps processes some slices of channels, as in the
// forward pass. A warp recomputes the moments and computes their gradients. It multiplies these by
// the transposed P, and sums dP in registers over the slices of a head. With two buffers, x and dy
// of the next slice are copied into shared memory meanwhile.
//
// The terms of dx through the token statistics need sums over all channels. So dx is first stored
// without these terms, but with dx_add. When all slices are done, the block goes over its tokens
// once more and adds the terms. A bfloat16 dx is therefore rounded twice. In exchange, no float32
// copy of dx is written and read, which would be four times the bytes of dx.
//
// The order of sums is fixed: over the eight tokens of a lane, the lanes, the slices of a head or
// of a warp, the warps, and the images. The slices of a warp depend only on the numbers of slices
// and warps.
//
// Estimated work for 256 images of 14 x 14 x 432 in bfloat16: x, dy, dx_add and dx are 43 MB each,
// 173 MB in all. Copying this takes 40 us if the second-level cache keeps x and the unfinished dx
// of the images in progress (45 MB), and up to twice as long if not. With dbranch, 43 MB more are
// written. Its column sums take one addition per element, and save another pass over those 43 MB.
//
// Eight warps: a channel takes 38 products of 16 x 8 x 16 (16 of them for dP), 16 products of
// 16 x 8 x 8, and about 560 warp instructions in all. That is 70 per element of the padded grid. An
// image takes 335 thousand warp instructions, with loads, stores and the last pass over the tokens.
// At 1.98 GHz, 132 multiprocessors issue them in 82 us if they use every issue slot. Two warps per
// scheduler cannot do this, because each waits for its own products and loads. The estimate is 120
// to 150 us.
//
// Twelve warps (dtn_backward_warps): three per scheduler, and 168 registers per lane instead of
// 255. Operands of P are loaded from memory, sums by token are in shared memory, and slices have
// one buffer. An image takes 347 thousand warp instructions, 85 us if every issue slot is used.
// Loads and stores take 77 us in the first-level cache and shared memory, compared to 32 us with
// eight warps. The estimate is 110 to 140 us. Neither version has been measured on a GPU.
#include <optional>

#include "kernels/dtn/dtn_norm_operands.cuh"
#include "kernels/dtn/dtn_norm_tensor_backward.cuh"

namespace dtn {
namespace tensor {
namespace {

using cuda::kPerVector;
using cuda::kWarpSize;

// P of one head, to recompute the moments, and its transpose, for the gradients. The bfloat16
// operands are kept in registers or, with kPrepared, loaded as prepared words at each use. The
// float32 operands are longer and are made from P at each use.
template <class T, bool kPrepared>
class Head {
 public:
  using Gradients = typename Precision<T>::Gradients;
  using Positions = typename Precision<T>::Positions;

  float mean_share, var_share;

  __device__ __forceinline__ void load(const BackwardArguments& a, int head) {
    index_ = head;
    mean_share = static_cast<const float*>(a.args.lambda_mean)[head];
    var_share = static_cast<const float*>(a.args.lambda_var)[head];
    if constexpr (kKept) {
      forward_ = load_forward(a);
      backward_ = load_backward(a);
    }
    if constexpr (kPrepared) prepared_ = PreparedOperands(a.operands, head);
  }
  __device__ __forceinline__ MomentPasses<T> forward(const BackwardArguments& a) const {
    if constexpr (kPrepared) {
      return prepared_.moments();
    } else if constexpr (kKept) {
      return forward_;
    } else {
      return load_forward(a);
    }
  }
  __device__ __forceinline__ Passes<Gradients> backward(const BackwardArguments& a) const {
    if constexpr (kPrepared) {
      return prepared_.gradients();
    } else if constexpr (kKept) {
      return backward_;
    } else {
      return load_backward(a);
    }
  }
  // P along the rows and down the columns, for dP.
  __device__ __forceinline__ Positions rows(const BackwardArguments& a) const {
    if constexpr (kPrepared) {
      return prepared_.right(kRowsRight);
    } else if constexpr (kKept) {
      return narrow<Positions>(forward_.p.rows);
    } else {
      return round_to<Positions>(load_matrix(a.rows, a.rows.p, index_));
    }
  }
  __device__ __forceinline__ Positions columns(const BackwardArguments& a) const {
    if constexpr (kPrepared) {
      return prepared_.right(kColumnsRight);
    } else if constexpr (kKept) {
      return narrow<Positions>(forward_.p.columns);
    } else {
      return round_to<Positions>(load_matrix(a.columns, a.columns.p, index_));
    }
  }

 private:
  static constexpr bool kKept = sizeof(T) == 2 && !kPrepared;
  struct None {};

  __device__ __forceinline__ MomentPasses<T> load_forward(const BackwardArguments& a) const {
    return {load_matrix(a.rows, a.rows.p, index_), load_matrix(a.columns, a.columns.p, index_)};
  }
  __device__ __forceinline__ Passes<Gradients> load_backward(const BackwardArguments& a) const {
    return {matrix_operand<Gradients>(load_matrix(a.rows, a.rows.p_transposed, index_)),
            matrix_operand<Gradients>(load_matrix(a.columns, a.columns.p_transposed, index_))};
  }

  int index_;
  std::conditional_t<kKept, MomentPasses<T>, None> forward_;
  std::conditional_t<kKept, Passes<Gradients>, None> backward_;
  std::conditional_t<kPrepared, PreparedOperands, None> prepared_;
};

template <class T>
inline constexpr int kMomentsUnrolled = sizeof(T) == 2 ? 2 : 1;

struct Channel {
  float offset;  // makes a stored token mean relative to the pivot
  float weight;
};

// Returns dx of one channel at the lane's tokens, without the terms through mu_ln and var_ln. Adds
// the lane's parts of the other gradients to token, sums, dweight and dbias.
template <class T, bool kGradientOfP, bool kFewRegisters>
__device__ __forceinline__ Tile differentiate(const BackwardArguments& a,
                                              const Head<T, kFewRegisters>& head,
                                              const float2* terms, const Channel& channel,
                                              const Plane<T>& plane, const Tile& dy,
                                              TokenSums<!kFewRegisters>& token, HeadSums& sums,
                                              float& dweight, float& dbias) {
  using Positions = typename Precision<T>::Positions;
  const Tile& x = plane.centred;
  Tile squares;
#pragma unroll
  for (int e = 0; e < kElements; ++e) squares(e) = x(e) * x(e);
  const MomentPasses<T> forward = head.forward(a);
  const Tile m1 = forward.first(plane), m2 = forward.second(squares);
  // The gradient of the second moment has the factor 2 of the derivative of x^2. The factor kMakeUp
  // in both gradients corrects for the bits that the products with the transposed P drop.
  Tile direct, dm1, twice_dm2;
  constexpr float kMakeUp = kCutMakesUp<typename Precision<T>::Gradients>;
  const float dmu_share = kMakeUp * (head.mean_share - 1);
  const float dvar_share = kMakeUp * (head.var_share - 1);
  const float to_token_mean = -head.mean_share, to_token_var = -0.5f * head.var_share;
#pragma unroll
  for (int pair = 0; pair < kElements; pair += 2) {
    const float4 of_pair = *reinterpret_cast<const float4*>(terms + slot_of_element(pair));
    float4 token_sums = token.get(pair / 2);
#pragma unroll
    for (int e = pair; e < pair + 2; ++e) {
      const float mean = e == pair ? of_pair.x : of_pair.z;
      const float var = e == pair ? of_pair.y : of_pair.w;
      const float m = m1(e), raw = m2(e) - m * m, v = at_least_zero(raw);
      const float from_token = (mean + channel.offset) - m;
      const float r =
          cuda::rsqrt_approximate((1 - head.var_share) * v + (head.var_share * var + a.sizes.eps));
      const float xhat = (x(e) - (m + head.mean_share * from_token)) * r;
      dweight += dy(e) * xhat;
      dbias += dy(e);
      direct(e) = dy(e) * channel.weight * r;  // -dmu
      const float q = direct(e) * xhat * r;    // -2 dvar
      sums.lambda_mean += direct(e) * from_token;
      sums.lambda_var += q * (var - v);
      (e == pair ? token_sums.x : token_sums.y) += to_token_mean * direct(e);
      (e == pair ? token_sums.z : token_sums.w) += to_token_var * q;
      twice_dm2(e) = raw < 0 ? 0.0f : dvar_share * q;
      dm1(e) = dmu_share * direct(e) - m * twice_dm2(e);
    }
    token.set(pair / 2, token_sums);
  }
  // Multiplies the gradients of the moments by the transposed P, and adds their parts of dP:
  //    dPy[i, j] = sum over columns of dm[i, column] z[j, column],   z = Px x
  //    dPx[i, j] = sum over rows of dm[row, i] u[row, j],            u = Py x
  // The summed index must run along the rows of both operands. The moments are processed one after
  // the other, because the float32 operands of both do not fit in the registers.
  Tile dx = direct;
#pragma unroll(kMomentsUnrolled <T>)
  for (int k = 0; k < 2; ++k) {
    if constexpr (kFewRegisters) separate_steps();
    forget_memory();  // reload the matrices
    const bool squared = k == 0;
    Tile moment, d, narrow_d;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      // Values, so that the choices below are not between addresses.
      const float v = x(e), by_mean = dm1(e), by_square = twice_dm2(e);
      moment(e) = squared ? v * v : v;
      d(e) = squared ? by_square : by_mean;
      narrow_d(e) = (squared ? 0.5f : 1.0f) * d(e);
    }
    if constexpr (kGradientOfP) {
      const Positions narrow_x = round_to<Positions>(moment);
      const Positions dm = round_to<Positions>(narrow_d);
      add_product(sums.columns, dm, round_to<Positions>(product(narrow_x, head.rows(a))));
      add_product(sums.rows, transposed(dm),
                  round_to<Positions>(product(transposed(narrow_x), head.columns(a))));
    }
    // The bfloat16 loop is unrolled, and its two steps overlap. A branch on dx would separate them,
    // so the products are computed even if dx is not needed.
    if (kMomentsUnrolled<T> == 2 || a.args.dx) {
      d = head.backward(a)(d);
#pragma unroll
      for (int e = 0; e < kElements; ++e) dx(e) += squared ? x(e) * d(e) : d(e);
    }
  }
  return dx;
}

// Computes the lane's parts of the gradients of a_x, a_y and a_d of a head, from its dP.
__device__ __forceinline__ void position_gradients(const BackwardArguments& a, int head, int lane,
                                                   const HeadSums& sums, float (&out)[3]) {
  auto dot = [&](const DtnAxis& axis, const float* matrices, const Tile& dp) {
    const Tile m = load_matrix(axis, matrices, head, lane);
    float sum = 0;
#pragma unroll
    for (int e = 0; e < kElements; ++e) sum += m(e) * dp(e);
    return sum;
  };
  out[0] = dot(a.rows, a.rows.by_offset, sums.rows);
  out[1] = dot(a.columns, a.columns.by_offset, sums.columns);
  out[2] =
      dot(a.rows, a.rows.by_square, sums.rows) + dot(a.columns, a.columns.by_square, sums.columns);
}

template <class T, bool kGradientOfP, bool kFewRegisters>
__device__ __forceinline__ void store_head_sums(const BackwardArguments& a, int head,
                                                const HeadSums& sums, float* to) {
  float pos[3] = {};
  if constexpr (kGradientOfP) {
    const int lane = kFewRegisters ? forgotten(lane_index()) : lane_index();
    position_gradients(a, head, lane, sums, pos);
  }
  constexpr float kMadeUp = 1 / kCutMakesUp<typename Precision<T>::Gradients>;
  const float all[kHeadSums] = {-sums.lambda_mean, -0.5f * sums.lambda_var, kMadeUp * pos[0],
                                kMadeUp * pos[1], kMadeUp * pos[2]};
#pragma unroll
  for (int k = 0; k < kHeadSums; ++k) {
    const float total = cuda::warp_sum(all[k]);
    if (lane_index() == 0) to[k] = total;
  }
}

// Computes dx of one slice, channel by channel. The unfinished dx of the first channel of a word
// overwrites x in the buffer. That of the second channel overwrites dy. With few registers, x and
// dy of one channel share a word of x_words, and the second channel is kept in the buffer of dy.
template <class T, bool kGradientOfP, bool kFewRegisters>
__device__ __forceinline__ void differentiate_slice(const BackwardArguments& a,
                                                    const Head<T, kFewRegisters>& head,
                                                    const Shared& shared,
                                                    const StagedSlices& staged, int buffer,
                                                    int channel, TokenSums<!kFewRegisters>& token,
                                                    HeadSums& sums) {
  const std::int64_t image = std::int64_t{blockIdx.x} * a.sizes.channels;
  const float* pivots = static_cast<const float*>(a.args.pivot) + image;
  const float* weight = static_cast<const float*>(a.args.weight);
  const float base = a.bases[blockIdx.x];
  float* channel_sums = lane_index() == 0 ? a.weight_sums : a.bias_sums;
#pragma unroll 1
  for (int w = 0; w < 4; ++w) {
    unsigned x_words[kElements], dy_words[kElements];  // few registers: x_words holds both
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      x_words[e] = staged.word(buffer, 0, e, w);
      dy_words[e] = staged.word(buffer, 1, e, w);
      if constexpr (kFewRegisters) {
        const unsigned x_word = x_words[e];
        x_words[e] = channels_of(x_word, dy_words[e], 0);
        staged.word(buffer, 1, e, w) = channels_of(x_word, dy_words[e], 1);
      }
    }
#pragma unroll 1
    for (int k = 0; k < kPerWord<T>; ++k) {
      const int c = channel + w * kPerWord<T> + k;
      const float pivot = pivots[c];
      const Plane<T> x = plane_of<T>(x_words, kFewRegisters ? 0 : k, pivot);
      Tile dy;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        dy(e) = kFewRegisters ? channel_of<T>(x_words[e], 1) : channel_of<T>(dy_words[e], k);
      }
      float dweight = 0, dbias = 0;
      const Tile dx = differentiate<T, kGradientOfP>(
          a, head, shared.terms, {base - pivot, weight[c]}, x, dy, token, sums, dweight, dbias);
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        staged.word(buffer, k, e, w) = __float_as_uint(dx(e));
        if (kFewRegisters && k == 0) x_words[e] = staged.word(buffer, 1, e, w);
      }
      const float sum = sum_two(dweight, dbias);
      if (lane_index() < 2) channel_sums[image + c] = sum;
    }
  }
}

template <class T, bool kGradientOfP, class Block>
__global__ void __launch_bounds__(Block::kWarps* kWarpSize, 1)
    dtn_tensor_backward_kernel(BackwardArguments a) {
  DTN_SHARED(uint4, memory);
  constexpr int n = kPerVector<T>;
  constexpr bool kTwoBuffers = Block::kBuffers == 2;
  const Shared shared(memory, Block::kWarps, Block::kBuffers);
  const int channels = static_cast<int>(a.sizes.channels);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  int image = static_cast<int>(blockIdx.x);
  LaneTokens tokens(a.sizes);
  Share share(channels / n, Block::kWarps);
  StagedSlices staged(memory + warp * Block::kBuffers * StagedSlices::kBuffer);
  if (share.begin < share.end) {
    staged.fetch(0, ImageTensors<T>(a, image), share.begin * n, tokens);
  }
  staged.commit();

  const float* mean = static_cast<const float*>(a.args.token_mean);
  const float* var = static_cast<const float*>(a.args.token_var);
  for (int p = static_cast<int>(threadIdx.x); p < kPositions; p += static_cast<int>(blockDim.x)) {
    const int row = p / kSide, column = p % kSide;
    float2 term = make_float2(0, 1);
    if (row < a.sizes.grid_h && column < a.sizes.grid_w) {
      const std::int64_t t =
          std::int64_t{blockIdx.x} * a.sizes.tokens + row * a.sizes.grid_w + column;
      term = make_float2(mean[t], var[t]);
    }
    shared.terms[slot_of(row, column)] = term;
  }
  for (int i = static_cast<int>(threadIdx.x); i < channels / n * kHeadSums;
       i += static_cast<int>(blockDim.x)) {
    shared.head_sums[i] = 0;
  }
  __syncthreads();

  TokenSums<!Block::kFewRegisters> token(shared.token_sums + warp * Shared::kSumsOfWarp);
  HeadSums sums;
  Head<T, Block::kFewRegisters> head{};
  for (int s = share.begin; s < share.end; ++s) {
    const int buffer = kTwoBuffers ? (s - share.begin) & 1 : 0, channel = s * n;
    if constexpr (kTwoBuffers) {
      if (s + 1 < share.end) {
        staged.fetch(1 - buffer, ImageTensors<T>(a, image), channel + n, tokens);
      }
      staged.commit();
    }
    const int h = channel / a.sizes.head_dim;
    if (s == share.begin || channel == h * a.sizes.head_dim) {
      if (s > share.begin) {
        store_head_sums<T, kGradientOfP, Block::kFewRegisters>(
            a, h - 1, sums, shared.head_sums + (s - 1) * kHeadSums);
      }
      sums = HeadSums();
      head.load(a, h);
    }
    staged.template wait<Block::kBuffers - 1>();
    differentiate_slice<T, kGradientOfP>(a, head, shared, staged, buffer, channel, token, sums);
    // Computes again what differentiate() does not use, so that it needs no registers meanwhile.
    if constexpr (Block::kFewRegisters) {
      tokens = LaneTokens(a.sizes, forgotten(lane_index()));
      image = forgotten(image);
      const int thread = forgotten(static_cast<int>(threadIdx.x));
      share = Share(forgotten(channels) / n, Block::kWarps, thread / kWarpSize);
    }
    const ImageTensors<T> tensors(a, image);
    if (tensors.dx) store_slice<T>(staged, buffer, channel, tokens, tensors);
    if constexpr (!kTwoBuffers) {
      if (s + 1 < share.end) staged.fetch(0, tensors, channel + n, tokens);
      staged.commit();
    }
  }
  if (share.begin < share.end) {
    const int last = share.end - 1;
    store_head_sums<T, kGradientOfP, Block::kFewRegisters>(a, last * n / a.sizes.head_dim, sums,
                                                           shared.head_sums + last * kHeadSums);
  }
  token.store();
  __syncthreads();
  finish_heads(a, shared, forgotten(channels) / n);
  if (!a.args.dx) return;
  make_slopes(a, shared);
  __syncthreads();
  finish_tokens<T>(a, shared, ImageTensors<T>(a, image));
  if (!a.branch_sums) return;
  __syncthreads();
  finish_columns(a, shared);
}

// Warps of a block and buffers of a warp.
struct BlockSize {
  int warps, buffers;
};

// Returns the block size, or nothing if shared memory is too small. At 432 channels, eight warps
// take 147 KiB with two buffers. With one buffer they take 83 KiB, and fit into the 99 KiB that a
// block has on compute capability 8.6, 8.9 and 12.0. Twelve warps take 123 KiB. They are for
// bfloat16 only, because float32 needs more registers.
std::optional<BlockSize> block_size(const DtnNormBackward& args) {
  const bool narrow = args.dtype == DType::kBFloat16;
  const int per_vector = narrow ? kPerVector<bfloat16> : kPerVector<float>;
  const int slices = static_cast<int>(args.channels) / per_vector;
  for (const BlockSize& size : {BlockSize{12, 1}, BlockSize{8, 2}, BlockSize{8, 1}}) {
    if (size.warps == 12 && (!narrow || dtn_backward_warps() != 12)) continue;
    if (Shared::bytes(slices, size.warps, size.buffers) <= most_shared_bytes()) return size;
  }
  return std::nullopt;
}

// Calls f with the kernel for this block size.
template <class T, bool kGradientOfP, class F>
void with_kernel(const BlockSize& size, F&& f) {
  if constexpr (sizeof(T) == 2) {
    if (size.warps == 12) {
      return f(dtn_tensor_backward_kernel<T, kGradientOfP, BackwardBlock<12, 1>>);
    }
  }
  if (size.buffers == 2) return f(dtn_tensor_backward_kernel<T, kGradientOfP, BackwardBlock<8, 2>>);
  f(dtn_tensor_backward_kernel<T, kGradientOfP, BackwardBlock<8, 1>>);
}

}  // namespace
}  // namespace tensor

bool tensor_cores_take(const DtnNormBackward& args) {
  const DtnSizes sizes(args);
  if (args.dbranch && sizes.image != sizes.tokens * sizes.channels) return false;
  return tensor::takes(args.dtype, args.variant, sizes,
                       {args.x, args.dy, args.dx_add, args.dx, args.dbranch}) &&
         tensor::block_size(args).has_value();
}

void run_tensor(CudaQueue& queue, const DtnNormBackward& args) {
  using namespace tensor;
  const DtnSizes sizes(args);
  const bool positions = args.dpos_weight != nullptr;
  const BlockSize size = block_size(args).value();
  const DtnPrepared prepared = prepare(queue, args, 0, sizes.heads, positions, size.warps == 12);
  const std::int64_t of_channels = sizes.batch * sizes.channels,
                     of_heads = sizes.batch * sizes.heads;
  const int columns = args.dbranch_sums ? 3 : 2;
  const DeviceScratch<float> scratch =
      queue.scratch<float>(columns * of_channels + kHeadSums * of_heads);
  float* const weight_sums = scratch.get();
  float* const bias_sums = weight_sums + of_channels;
  float* const branch_sums = args.dbranch_sums ? bias_sums + of_channels : nullptr;
  float* const lambda_mean = weight_sums + columns * of_channels;
  float* const lambda_var = lambda_mean + of_heads;
  float* const pos_weight = lambda_var + of_heads;
  const BackwardArguments a{args,
                            sizes,
                            prepared.positions.rows,
                            prepared.positions.columns,
                            prepared.positions.operands,
                            prepared.bases.get(),
                            weight_sums,
                            bias_sums,
                            branch_sums,
                            lambda_mean,
                            lambda_var,
                            pos_weight};
  for_cuda_dtype("dtn_tensor_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int slices = static_cast<int>(sizes.channels) / kPerVector<T>;
    const LaunchShape shape{dim3(static_cast<unsigned>(sizes.batch)),
                            static_cast<unsigned>(size.warps * kWarpSize),
                            Shared::bytes(slices, size.warps, size.buffers)};
    auto launch_it = [&](auto* kernel) {
      launch(queue,
             {"dtn_tensor_backward",
              {sizes.batch, sizes.grid_h, sizes.grid_w, sizes.channels, sizes.heads}},
             kernel, shape, a);
    };
    positions ? with_kernel<T, true>(size, launch_it) : with_kernel<T, false>(size, launch_it);
  });
  finish_parameter_gradients(queue, args,
                             {sizes.batch, weight_sums, bias_sums, sizes.batch, lambda_mean,
                              lambda_var, pos_weight, branch_sums});
}

}  // namespace dtn
