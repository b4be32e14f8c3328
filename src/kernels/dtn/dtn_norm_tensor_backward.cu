// Backward pass of DTN on tensor cores; see dtn_norm.h for the formulas and dtn_norm_tensor.cuh for
// the products.
//
// One block makes one image, each of its warps some slices of channels, as in the forward pass: the
// moments again, their gradients, the way of these back through the transposed P, and dP, which is
// summed in registers over the slices of a head. x and dy of the next slice are on their way into
// shared memory meanwhile. What reaches x through the statistics of its token needs sums over all
// channels. So dx is first stored without it, with dx_add in it, and when all slices are done the
// block goes over its tokens once more and adds it. A bfloat16 dx is therefore rounded twice; in
// exchange no float32 copy of it is written and read (four times the bytes of dx).
//
// Sums have one order: over the eight tokens of a lane, the lanes, the slices of a head or of a
// warp (shares depend on the number of slices alone), the warps, and the images.
//
// Work, for 256 images of 14 x 14 x 432 in bfloat16: x, dy, dx_add and dx are 43 MB each, 173 MB,
// 40 us at the speed of a copy, if the second level of caches keeps x and the unfinished dx of the
// images in progress (45 MB); up to twice that if not. With dbranch 43 MB more are written, whose column
// sums take an addition for each element and save whoever wants them another 43 MB.
// A channel takes 38 products of 16 x 8 x 16 and 16 of 16 x 8 x 8 (16 of the former for dP), and some
// 545 instructions of a warp in all, 68 per element of the padded grid. With 5 more for loading and
// storing and the sweep over the tokens that fills the issue slots of 132 multiprocessors for 77 us
// at 1.98 GHz.
#include "kernels/dtn/dtn_norm_tensor_backward.cuh"

namespace dtn {
namespace tensor {
namespace {

using cuda::kPerVector;
using cuda::kWarpSize;

// What one head needs: P to make the moments again, and its transpose to take gradients back. The
// registers hold the operands of bfloat16; the longer ones of float32 are loaded where they are
// used.
template <class T>
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
  }
  __device__ __forceinline__ MomentPasses<T> forward(const BackwardArguments& a) const {
    if constexpr (kKept) return forward_;
    return load_forward(a);
  }
  __device__ __forceinline__ Passes<Gradients> backward(const BackwardArguments& a) const {
    if constexpr (kKept) return backward_;
    return load_backward(a);
  }
  // P along the rows and down the columns, for dP.
  __device__ __forceinline__ Positions rows(const BackwardArguments& a) const {
    if constexpr (kKept) return narrow<Positions>(forward_.p.rows);
    return round_to<Positions>(load_matrix(a.rows, a.rows.p, index_));
  }
  __device__ __forceinline__ Positions columns(const BackwardArguments& a) const {
    if constexpr (kKept) return narrow<Positions>(forward_.p.columns);
    return round_to<Positions>(load_matrix(a.columns, a.columns.p, index_));
  }

 private:
  static constexpr bool kKept = sizeof(T) == 2;
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
};

template <class T>
inline constexpr int kMomentsUnrolled = sizeof(T) == 2 ? 2 : 1;

struct Channel {
  float offset;  // from a token mean as it is kept to one relative to the pivot
  float weight;
};

// The gradients of one channel at the lane's tokens: dx without the terms through mu_ln and var_ln.
// dweight and dbias get the sums over this lane.
template <class T, bool kGradientOfP>
__device__ __forceinline__ Tile differentiate(const BackwardArguments& a, const Head<T>& head,
                                              const float2* terms, const Channel& channel,
                                              const Plane<T>& plane, const Tile& dy,
                                              TokenSums& token, HeadSums& sums, float& dweight,
                                              float& dbias) {
  using Positions = typename Precision<T>::Positions;
  const Tile& x = plane.centred;
  Tile squares;
#pragma unroll
  for (int e = 0; e < kElements; ++e) squares(e) = x(e) * x(e);
  const MomentPasses<T> forward = head.forward(a);
  const Tile m1 = forward.first(plane), m2 = forward.second(squares);
  // The second moment's gradient is kept twice as large, as x^2 has it, and both are made up for
  // what the products with the transpose of P will cut off.
  Tile direct, dm1, twice_dm2;
  constexpr float kMakeUp = kCutMakesUp<typename Precision<T>::Gradients>;
  const float dmu_share = kMakeUp * (head.mean_share - 1);
  const float dvar_share = kMakeUp * (head.var_share - 1);
  const float to_token_mean = -head.mean_share, to_token_var = -0.5f * head.var_share;
#pragma unroll
  for (int pair = 0; pair < kElements; pair += 2) {
    const float4 of_pair = *reinterpret_cast<const float4*>(terms + slot_of_element(pair));
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
      token.mean(e) += to_token_mean * direct(e);
      token.var(e) += to_token_var * q;
      twice_dm2(e) = raw < 0 ? 0.0f : dvar_share * q;
      dm1(e) = dmu_share * direct(e) - m * twice_dm2(e);
    }
  }
  // The moments' ways back to x, and their parts of
  //   dPy[i, j] = sum dm[i, column] z[j, column] with z = Px x, and
  //   dPx[i, j] = sum dm[row, i] u[row, j] with u = Py x, over the columns and rows of the grid:
  // what is summed over must lie along the rows of both operands. One moment after the other, since
  // float32 operands of both would not fit the registers.
  Tile dx = direct;
#pragma unroll(kMomentsUnrolled <T>)
  for (int k = 0; k < 2; ++k) {
    forget_memory();  // the matrices
    const bool squared = k == 0;
    Tile moment, d, narrow_d;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const float v = x(e), by_mean = dm1(e), by_square = twice_dm2(e);  // values, not places
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
    // bfloat16 goes both ways side by side, wanted or not: the branch would keep them apart.
    if (kMomentsUnrolled<T> == 2 || a.args.dx) {
      d = head.backward(a)(d);
#pragma unroll
      for (int e = 0; e < kElements; ++e) dx(e) += squared ? x(e) * d(e) : d(e);
    }
  }
  return dx;
}

// The sums over a head's position matrices that the softmax makes of dP: of the weights x, y and d.
__device__ __forceinline__ void position_gradients(const BackwardArguments& a, int head,
                                                   const HeadSums& sums, float (&out)[3]) {
  auto dot = [&](const DtnAxis& axis, const float* matrices, const Tile& dp) {
    const Tile m = load_matrix(axis, matrices, head);
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

template <class T, bool kGradientOfP>
__device__ __forceinline__ void store_head_sums(const BackwardArguments& a, int head,
                                                const HeadSums& sums, float* to) {
  float pos[3] = {};
  if constexpr (kGradientOfP) position_gradients(a, head, sums, pos);
  constexpr float kMadeUp = 1 / kCutMakesUp<typename Precision<T>::Gradients>;
  const float all[kHeadSums] = {-sums.lambda_mean, -0.5f * sums.lambda_var, kMadeUp * pos[0],
                                kMadeUp * pos[1], kMadeUp * pos[2]};
#pragma unroll
  for (int k = 0; k < kHeadSums; ++k) {
    const float total = cuda::warp_sum(all[k]);
    if (lane_index() == 0) to[k] = total;
  }
}

// One slice: its channels one after the other. The unfinished dx of a word's first channel takes
// the place of x in the buffer, that of its second the place of dy.
template <class T, bool kGradientOfP>
__device__ __forceinline__ void differentiate_slice(const BackwardArguments& a, const Head<T>& head,
                                                    const Shared& shared, const Staged& staged,
                                                    int buffer, int channel, TokenSums& token,
                                                    HeadSums& sums) {
  const std::int64_t image = std::int64_t{blockIdx.x} * a.sizes.channels;
  const float* pivots = static_cast<const float*>(a.args.pivot) + image;
  const float* weight = static_cast<const float*>(a.args.weight);
  const float base = a.bases[blockIdx.x];
  float* channel_sums = lane_index() == 0 ? a.weight_sums : a.bias_sums;
#pragma unroll 1
  for (int w = 0; w < 4; ++w) {
    unsigned x_words[kElements], dy_words[kElements];
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      x_words[e] = staged.word(buffer, 0, e, w);
      dy_words[e] = staged.word(buffer, 1, e, w);
    }
#pragma unroll 1
    for (int k = 0; k < kPerWord<T>; ++k) {
      const int c = channel + w * kPerWord<T> + k;
      const float pivot = pivots[c];
      const Plane<T> x = plane_of<T>(x_words, k, pivot);
      Tile dy;
#pragma unroll
      for (int e = 0; e < kElements; ++e) dy(e) = channel_of<T>(dy_words[e], k);
      float dweight = 0, dbias = 0;
      const Tile dx = differentiate<T, kGradientOfP>(
          a, head, shared.terms, {base - pivot, weight[c]}, x, dy, token, sums, dweight, dbias);
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        staged.word(buffer, k, e, w) = __float_as_uint(dx(e));
      }
      const float sum = sum_two(dweight, dbias);
      if (lane_index() < 2) channel_sums[image + c] = sum;
    }
  }
}

template <class T, bool kGradientOfP>
__global__ void __launch_bounds__(kMostWarps* kWarpSize, 1)
    dtn_tensor_backward_kernel(BackwardArguments a) {
  DTN_SHARED(uint4, memory);
  constexpr int n = kPerVector<T>;
  const int warps = warps_of_block();
  const Shared shared(memory, warps);
  const int channels = static_cast<int>(a.sizes.channels), slices = channels / n;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t image = std::int64_t{blockIdx.x} * a.sizes.image;
  const T* x = static_cast<const T*>(a.args.x) + image;
  const T* dy = static_cast<const T*>(a.args.dy) + image;
  const T* add = a.args.dx_add ? static_cast<const T*>(a.args.dx_add) + image : nullptr;
  T* dx = a.args.dx ? static_cast<T*>(a.args.dx) + image : nullptr;
  const LaneTokens tokens(a.sizes);
  const Share share(slices, warps);
  Staged staged(memory + warp * Staged::kVectors);
  if (share.begin < share.end) staged.fetch(0, x, dy, share.begin * n, tokens);
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
  __syncthreads();

  TokenSums token;
  HeadSums sums;
  Head<T> head{};
  int current = -1, first = 0;  // head of this run of slices, and its first slice
  for (int s = share.begin; s < share.end; ++s) {
    const int buffer = (s - share.begin) & 1, channel = s * n, h = channel / a.sizes.head_dim;
    if (s + 1 < share.end) staged.fetch(1 - buffer, x, dy, channel + n, tokens);
    staged.commit();
    if (h != current) {
      if (current >= 0) {
        store_head_sums<T, kGradientOfP>(a, current, sums, shared.head_sums + first * kHeadSums);
      }
      sums = HeadSums();
      head.load(a, current = h);
      first = s;
    } else if (lane_index() < kHeadSums) {
      shared.head_sums[s * kHeadSums + lane_index()] = 0;
    }
    staged.wait();
    differentiate_slice<T, kGradientOfP>(a, head, shared, staged, buffer, channel, token, sums);
    if (dx) store_slice<T>(staged, buffer, channel, tokens, add, dx);
  }
  if (current >= 0) {
    store_head_sums<T, kGradientOfP>(a, current, sums, shared.head_sums + first * kHeadSums);
  }
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    const int slot = slot_of_element(e);
    shared.token_sums[warp * 2 * kPositions + slot] = token.mean(e);
    shared.token_sums[(warp * 2 + 1) * kPositions + slot] = token.var(e);
  }
  __syncthreads();
  finish_heads(a, shared, slices);
  if (!dx) return;
  make_slopes(a, shared);
  __syncthreads();
  finish_tokens<T>(a, shared, x, dx);
  if (!a.branch_sums) return;
  __syncthreads();
  finish_columns(a, shared);
}

// How many warps of a block the device has shared memory for, or 0. What they share grows with
// their number: 147 KiB for eight at 432 channels, 75 for four, where compute capability 8.6, 8.9
// and 12.0 give a block 99.
int warps_for(const DtnNormBackward& args) {
  const int per_vector = args.dtype == DType::kBFloat16 ? kPerVector<bfloat16> : kPerVector<float>;
  const int slices = static_cast<int>(args.channels) / per_vector;
  for (int warps : {kMostWarps, kMostWarps / 2}) {
    if (Shared::bytes(slices, warps) <= most_shared_bytes()) return warps;
  }
  return 0;
}

}  // namespace
}  // namespace tensor

bool tensor_cores_take(const DtnNormBackward& args) {
  const DtnSizes sizes(args);
  if (args.dbranch && sizes.image != sizes.tokens * sizes.channels) return false;
  if (args.dbranch_sums && sizes.channels > tensor::Staged::kFloats) return false;
  return tensor::takes(args.dtype, args.variant, sizes,
                       {args.x, args.dy, args.dx_add, args.dx, args.dbranch}) &&
         tensor::warps_for(args) > 0;
}

void run_tensor(CudaQueue& queue, const DtnNormBackward& args) {
  using namespace tensor;
  const DtnSizes sizes(args);
  const bool positions = args.dpos_weight != nullptr;
  const int warps = warps_for(args);
  const DtnPrepared prepared = prepare(queue, args, 0, sizes.heads, positions);
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
    launch(queue,
           {"dtn_tensor_backward",
            {sizes.batch, sizes.grid_h, sizes.grid_w, sizes.channels, sizes.heads}},
           positions ? dtn_tensor_backward_kernel<T, true> : dtn_tensor_backward_kernel<T, false>,
           {dim3(static_cast<unsigned>(sizes.batch)), static_cast<unsigned>(warps * kWarpSize),
            Shared::bytes(slices, warps)},
           a);
  });
  finish_parameter_gradients(queue, args,
                             {sizes.batch, weight_sums, bias_sums, sizes.batch, lambda_mean,
                              lambda_var, pos_weight, branch_sums});
}

}  // namespace dtn
