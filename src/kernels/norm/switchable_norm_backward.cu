// Switchable normalization, backward, second step; see switchable_norm.h for the formulas and
// switchable_norm_cuda.cuh for the layout of an image over blocks.
//
// Reads x and dy once and writes dx. Before that, the gradients of the statistics are folded into
// few terms per channel and per token, like the statistics themselves.
#include "kernels/norm/switchable_norm_cuda.cuh"

namespace dtn {
namespace switchable {
namespace {

// Terms of dx. With u = x - pivot,
//    dx = dy weight r + u slope[b,c] + offset[b,c] + (u + reach[b,c]) token_slope[b,t]
//         + token_offset[b,t] + dx_add
// where u + reach is x minus the mean of the image's first token.
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

// One thread per channel of each image, then one per token.
constexpr int kFoldThreads = 256;
__global__ void __launch_bounds__(kFoldThreads)
    switchable_norm_fold_gradient_kernel(FoldGradient a) {
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kFoldThreads + threadIdx.x;
  const Shares w(a.t.mean_weight), v(a.t.var_weight);
  if (i < a.t.batch * a.t.channels) {
    const std::int64_t b = i / a.t.channels, c = i - b * a.t.channels;
    const double pivot = a.pivot[i], share = 1 / static_cast<double>(a.t.samples.tokens_of(b));
    double slope = 2 * v.in * share * a.image_dvar[i];
    double offset = w.in * share * a.image_dmean[i] - slope * (a.t.image_mean[i] - pivot);
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
  const std::int64_t b = i / a.t.tokens;
  if (a.t.samples.is_pad(i, b)) return;
  const double channels = static_cast<double>(a.t.channels);
  const double base = a.t.token_mean[b * a.t.tokens];
  const double slope = 2 * v.ln / channels * a.token_dvar[i];
  a.to.token_slope[i] = static_cast<float>(slope);
  a.to.token_offset[i] =
      static_cast<float>(w.ln / channels * a.token_dmean[i] - slope * (a.t.token_mean[i] - base));
}

template <class T>
struct Backward {
  Samples samples;
  std::int64_t channels, pieces, piece_rows;
  const T *x, *dy, *dx_add;
  Folded folded;
  FoldedGradient gradient;
  const float* weight;
  T* dx;
};

template <class T, int kRun>
__global__ void __launch_bounds__(kMaxThreads) switchable_norm_backward_kernel(Backward<T> a) {
  const Place<kRun> at(a.pieces, a.piece_rows, a.samples, a.channels);
  if (!at.live) return;
  float pivot[kRun], var[kRun], weight[kRun], slope[kRun], offset[kRun], reach[kRun];
  const std::int64_t of_image = at.image * a.channels + at.column;
  cuda::load_values(a.folded.pivot + of_image, pivot);
  cuda::load_values(a.folded.var + of_image, var);
  cuda::load_values(a.weight + at.column, weight);
  cuda::load_values(a.gradient.slope + of_image, slope);
  cuda::load_values(a.gradient.offset + of_image, offset);
  cuda::load_values(a.gradient.reach + of_image, reach);
  const std::int64_t token = at.image * a.samples.tokens;
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
  for (std::int64_t row = at.first_pad; row < a.samples.tokens; row += at.step) {
    const std::int64_t i = (token + row) * a.channels + at.column;
    float waiting[kRun] = {};
    if (a.dx_add) cuda::load_values(a.dx_add + i, waiting);
    cuda::store_values(a.dx + i, waiting);
  }
}

}  // namespace
}  // namespace switchable

void run(CudaQueue& queue, const SwitchableNormBackward& args) {
  using namespace switchable;
  const SwitchableTerms& t = args.terms;
  for_cuda_dtype("switchable_norm_backward", t.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (t.is_empty()) return;
    const KernelName name{"switchable_norm_backward", {t.batch, t.tokens, t.channels}};
    auto memory = queue.scratch<float>(Folded::size(t));
    auto gradient_memory = queue.scratch<float>(Folded::size(t));
    const Folded folded(memory.get(), t);
    const FoldedGradient gradient(gradient_memory.get(), t);
    fold(queue, t, folded);
    const FoldGradient fold_gradient{.t = Terms(t),
                                     .pivot = folded.pivot,
                                     .token_dmean = static_cast<const float*>(args.token_dmean),
                                     .token_dvar = static_cast<const float*>(args.token_dvar),
                                     .image_dmean = static_cast<const float*>(args.image_dmean),
                                     .image_dvar = static_cast<const float*>(args.image_dvar),
                                     .batch_dmean = static_cast<const float*>(args.batch_dmean),
                                     .batch_dvar = static_cast<const float*>(args.batch_dvar),
                                     .positions = static_cast<double>(args.positions),
                                     .to = gradient};
    launch(queue, name, switchable_norm_fold_gradient_kernel,
           {blocks_for(t.batch * (t.channels + t.tokens), kFoldThreads), kFoldThreads},
           fold_gradient);
    const Layout layout = Layout::of<T>(t, {t.x, args.dy, args.dx_add, args.dx}, {args.weight});
    const Backward<T> backward{.samples = Samples(t),
                               .channels = t.channels,
                               .pieces = layout.pieces,
                               .piece_rows = layout.piece_rows,
                               .x = static_cast<const T*>(t.x),
                               .dy = static_cast<const T*>(args.dy),
                               .dx_add = static_cast<const T*>(args.dx_add),
                               .folded = folded,
                               .gradient = gradient,
                               .weight = static_cast<const float*>(args.weight),
                               .dx = static_cast<T*>(args.dx)};
    for_run(layout, [&](auto run) {
      launch(queue, name, switchable_norm_backward_kernel<T, run>, {layout.grid(t), layout.threads},
             backward);
    });
  });
}

}  // namespace dtn
