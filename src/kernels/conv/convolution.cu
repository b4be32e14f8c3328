// Convolutions of tokens on a device as implicit matrix products; see convolution.h.
//
// As on the CPU, a convolution is patches [positions, taps C] times its kernel [taps C, O]. The
// gradient of the input is the same with another kernel for each phase of the stride. A block
// computes a tile of the result. Its threads gather a few columns of patches at a time, straight
// from the map, into shared memory. They gather the next columns while the current ones are
// multiplied. The gradient of the kernel is patches^T dy. If it has few tiles, the positions are
// split among blocks, whose parts are added in order.
#include <type_traits>

#include "kernels/conv/convolution_cuda.cuh"
#include "kernels/conv/depthwise_tokens.h"
#include "kernels/gemm/linear.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

using cuda::Correlation;
using cuda::Sources;
using cuda::WeightGradient;

constexpr int kThreads = 256;

// The kernel of every group as a matrix, [groups, taps in, out] or [groups, taps out, in], with the
// taps first + u step_h + v step_w.
struct KernelOrder {
  std::int64_t groups, rows, columns;  // rows and columns of taps
  std::int64_t first, step_h, step_w, all;
  std::int64_t in, out;  // of a group
  std::int64_t there;    // inputs that exist; the others are zeros
  bool of_outputs;       // rows are (tap, output), columns are inputs

  std::int64_t count() const { return groups * rows * columns * in * out; }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    kernel_matrix_kernel(KernelOrder k, const T* weight, T* to, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t inner = k.of_outputs ? k.in : k.out, middle = k.of_outputs ? k.out : k.in;
  const std::int64_t a = i % inner, b = i / inner % middle, rest = i / (inner * middle);
  const std::int64_t tap = rest % (k.rows * k.columns), group = rest / (k.rows * k.columns);
  const std::int64_t o = k.of_outputs ? b : a, c = k.of_outputs ? a : b;
  const std::int64_t from = k.first + tap / k.columns * k.step_h + tap % k.columns * k.step_w;
  to[i] = c < k.there ? weight[((group * k.out + o) * k.there + c) * k.all + from]
                      : cuda::from_float<T>(0.0f);
}

// Copies the tokens of a map with their channels padded by zeros.
template <class T>
__global__ void __launch_bounds__(kThreads)
    fill_up_channels_kernel(const T* x, std::int64_t channels, std::int64_t padded, T* to,
                            std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t c = i % padded;
  to[i] = c < channels ? x[i / padded * channels + c] : cuda::from_float<T>(0.0f);
}

// dweight[group, o, c, tap] += the sum of the shares, in order, for the first `there` inputs c.
__global__ void __launch_bounds__(kThreads)
    convolution_add_shares_kernel(const float* partials, std::int64_t shares, std::int64_t taps,
                                  std::int64_t in, std::int64_t there, std::int64_t out,
                                  float* dweight, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
#pragma unroll 4
  for (std::int64_t k = 0; k < shares; ++k) sum += partials[k * count + i];
  const std::int64_t o = i % out, c = i / out % in, tap = i / (out * in) % taps;
  const std::int64_t group = i / (out * in * taps);
  if (c < there) dweight[((group * out + o) * there + c) * taps + tap] += sum;
}

template <class T>
Sources<T> sources_of(const GridTaps& taps, const void* from, std::int64_t channels,
                      std::int64_t width) {
  const bool wide = channels % 4 == 0 && width % 4 == 0 && cuda::all_aligned(from);
  return {taps, static_cast<const T*>(from), channels, width, wide};
}

// Number of inputs of a group that a convolution computes with. It is padded to a multiple of eight
// if the tensor cores need that and the zeros cost less than doing without these cores, as for the
// three channels of an image.
template <class T>
std::int64_t inputs_computed(const ConvolutionShape& s) {
  const std::int64_t eights = (s.channels + 7) / 8 * 8;
  const bool fills_up = std::is_same_v<T, bfloat16> && s.groups == 1 && s.outputs % 8 == 0 &&
                        eights <= 4 * s.channels;
  return fills_up ? eights : s.channels_of_group();
}

template <class T>
struct Inputs {
  DeviceScratch<T> filled_up;
  Sources<T> sources;
};
template <class T>
Inputs<T> inputs_of(CudaQueue& queue, const ConvolutionShape& s, const void* x) {
  const Window& w = s.window;
  const std::int64_t computed = inputs_computed<T>(s), channels = s.groups * computed;
  Inputs<T> inputs{DeviceScratch<T>(nullptr), {}};
  if (channels > s.channels) {
    const std::int64_t count = s.batch * w.height * w.width * channels;
    inputs.filled_up = queue.scratch<T>(count);
    launch(queue, {"convolution_fill_up_channels", {count}}, fill_up_channels_kernel<T>,
           {blocks_for(count, kThreads), kThreads}, static_cast<const T*>(x), s.channels, channels,
           inputs.filled_up.get(), count);
    x = inputs.filled_up.get();
  }
  inputs.sources = sources_of<T>(forward_taps(w), x, channels, computed);
  return inputs;
}

template <class T>
DeviceScratch<T> kernel_matrix(CudaQueue& queue, const ConvolutionShape& s, const GridTaps& taps,
                               bool of_outputs, std::int64_t inputs, const void* weight) {
  const AxisTaps &h = taps.h, &w = taps.w;
  const std::int64_t kernel_w = s.window.kernel_w;
  const KernelOrder order{
      s.groups,   h.taps,   w.taps, h.tap * kernel_w + w.tap, h.tap_step * kernel_w,
      w.tap_step, s.taps(), inputs, s.outputs_of_group(),     s.channels_of_group(),
      of_outputs};
  const std::int64_t count = order.count();
  auto to = queue.scratch<T>(count > 0 ? count : 1);
  if (count > 0) {
    launch(queue, {"convolution_kernel_matrix", {count}}, kernel_matrix_kernel<T>,
           {blocks_for(count, kThreads), kThreads}, order, static_cast<const T*>(weight), to.get(),
           count);
  }
  return to;
}

// True if the tensor cores accept rows of `channels` values at p, with `of_group` values per group.
bool by_eights(const void* p, std::int64_t channels, std::int64_t of_group) {
  return channels % 8 == 0 && of_group % 8 == 0 && cuda::all_aligned(p);
}
template <class T>
bool by_eights(const Sources<T>& s) {
  return by_eights(s.from, s.channels, s.width);
}

template <class T>
void correlate(CudaQueue& queue, const char* name, const Correlation<T>& args,
               std::int64_t groups) {
  if (args.rows == 0) return;
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (by_eights(args.sources) && by_eights(args.to, args.channels, args.out)) {
      return cuda::correlate_tensor(queue, name, args, groups);
    }
  }
  cuda::correlate_plain(queue, name, args, groups);
}

// Number of positions per share: it gives enough blocks for a device, and each block enough work.
std::int64_t positions_of_share(std::int64_t positions, std::int64_t tiles) {
  constexpr std::int64_t kEnoughBlocks = 512, kMin = 512;
  std::int64_t shares = (kEnoughBlocks + tiles - 1) / tiles;
  if (shares > positions / kMin) shares = positions / kMin;
  if (shares < 1) shares = 1;
  const std::int64_t share = (positions + shares - 1) / shares;
  constexpr std::int64_t kUnit = cuda::kTensorTile.depth;
  return (share + kUnit - 1) / kUnit * kUnit;
}

template <class T>
void backward_weight(CudaQueue& queue, const ConvolutionBackwardWeight& args) {
  const ConvolutionShape& s = args.shape;
  const Inputs<T> inputs = inputs_of<T>(queue, s, args.x);
  const Sources<T>& sources = inputs.sources;
  const std::int64_t columns = sources.columns(), out = s.outputs_of_group();
  const bool tensor =
      std::is_same_v<T, bfloat16> && by_eights(sources) && by_eights(args.dy, s.outputs, out);
  const cuda::ProductTileShape& tile = tensor ? cuda::tensor_tile(out) : cuda::kPlainTile;
  const std::int64_t tiles =
      std::int64_t{blocks_for(columns, tile.rows).x} * blocks_for(out, tile.columns).x * s.groups;
  const std::int64_t share = positions_of_share(s.positions(), tiles);
  const std::int64_t shares = (s.positions() + share - 1) / share;
  const std::int64_t count = s.groups * columns * out;
  auto partials = queue.scratch<float>(shares * count);
  const bool wide = s.outputs % 4 == 0 && out % 4 == 0 && cuda::all_aligned(args.dy);
  const WeightGradient<T> gradient{sources,   static_cast<const T*>(args.dy),
                                   s.outputs, out,
                                   s.groups,  s.positions(),
                                   share,     partials.get(),
                                   wide};
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (tensor) cuda::weight_gradient_tensor(queue, gradient);
  }
  if (!tensor) cuda::weight_gradient_plain(queue, gradient);
  launch(queue, {"convolution_add_shares", {shares, count}}, convolution_add_shares_kernel,
         {blocks_for(count, kThreads), kThreads}, static_cast<const float*>(partials.get()), shares,
         s.taps(), sources.width, s.channels_of_group(), out, static_cast<float*>(args.dweight),
         count);
}

}  // namespace

void run(CudaQueue& queue, const ConvolutionForward& args) {
  const ConvolutionShape& s = args.shape;
  if (s.depthwise()) return run(queue, DepthwiseTokensForward{args});
  if (s.pointwise()) {
    return run(queue, LinearForward{s.dtype, s.positions(), s.channels, s.outputs, args.x,
                                    args.weight, args.bias, args.y});
  }
  for_cuda_dtype("convolution_forward", s.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (s.positions() == 0) return;
    const Inputs<T> inputs = inputs_of<T>(queue, s, args.x);
    const Sources<T>& sources = inputs.sources;
    const auto weight = kernel_matrix<T>(queue, s, sources, false, sources.width, args.weight);
    correlate(queue, "convolution_forward",
              Correlation<T>{sources, s.positions(), weight.get(),
                             static_cast<const float*>(args.bias), static_cast<T*>(args.y),
                             s.window.out_h, s.window.out_w, s.outputs, s.outputs_of_group()},
              s.groups);
  });
}

void run(CudaQueue& queue, const ConvolutionBackwardInput& args) {
  const ConvolutionShape& s = args.shape;
  if (s.depthwise()) return run(queue, DepthwiseTokensBackwardInput{args});
  if (s.pointwise()) {
    return run(queue, LinearBackwardInput{s.dtype, s.positions(), s.channels, s.outputs, args.dy,
                                          args.weight, args.dx});
  }
  for_cuda_dtype("convolution_backward_input", s.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Window& w = s.window;
    for (std::int64_t phase = 0; phase < w.stride_h * w.stride_w; ++phase) {
      const GridTaps taps = backward_taps(w, phase);
      const auto weight =
          kernel_matrix<T>(queue, s, taps, true, s.channels_of_group(), args.weight);
      correlate(queue, "convolution_backward_input",
                Correlation<T>{sources_of<T>(taps, args.dy, s.outputs, s.outputs_of_group()),
                               s.batch * taps.h.count * taps.w.count, weight.get(), nullptr,
                               static_cast<T*>(args.dx), w.height, w.width, s.channels,
                               s.channels_of_group()},
                s.groups);
    }
  });
}

void run(CudaQueue& queue, const ConvolutionBackwardWeight& args) {
  const ConvolutionShape& s = args.shape;
  if (s.depthwise()) return run(queue, DepthwiseTokensBackwardWeight{args});
  if (s.pointwise()) {
    return run(queue, LinearBackwardWeight{s.dtype, s.positions(), s.channels, s.outputs, args.dy,
                                           args.x, args.dweight, args.dbias});
  }
  if (s.positions() == 0) return;
  if (args.dbias) {
    run(queue, SumRows{s.dtype, s.positions(), s.outputs, args.dy, args.dbias});
  }
  if (!args.dweight) return;
  for_cuda_dtype("convolution_backward_weight", s.dtype,
                 [&](auto zero) { backward_weight<decltype(zero)>(queue, args); });
}

}  // namespace dtn
