// Forward pass of DTN on CUDA cores, for any grid, any head size and both variants. See dtn_norm.h
// for the formulas and dtn_norm_plain.cuh for the division of work.
//
// A block computes the pivots of its channels, x minus the pivot (plane x), and the pass along the
// rows of the grid (planes z1 and z2). Then it computes the pass down the columns, with eight
// outputs of a line per thread in registers, and writes y from these. Position matrices are read
// through the first-level cache: all threads of a group read the same 32 bytes, for 16
// multiply-adds each.
//
// Per element: 4 (grid_h + grid_w) floating-point operations, fewer if P covers only part of a wide
// grid (Reads), and two reads of x besides that of token_statistics(). The second read hits at
// least the second-level cache. At 14 x 14 in float32, arithmetic and memory traffic take about
// equally long. Planes in scratch memory add up to 24 bytes.
#include "kernels/dtn/dtn_norm_plain.cuh"

namespace dtn {
namespace plain {
namespace {

constexpr int kPlanes = 3;  // x, z1, z2

struct ForwardArguments {
  DtnNormForward args;
  DtnSizes sizes;
  Slicing slicing;
  Range range;
  DtnAxis rows, columns;
  const float* bases;
  float* scratch;
};

template <bool kOfficial, class T>
__device__ float make_pivot(const Slice& s, const T* x, std::int64_t step, const double* scale,
                            int tokens, float* sums) {
  // Relative to the first value, to keep precision if the mean is much larger than the spread.
  const float first = centred<kOfficial>(x[0], scale, 0, 0);
  float sum = 0;
#pragma unroll 4
  for (int t = s.group; t < tokens; t += s.groups) {
    sum += centred<kOfficial>(x[t * step], scale, t, first);
  }
  deposit(s, sum, sums);
  __syncthreads();
  return first + total(s, sums) / static_cast<float>(tokens);
}

template <class T, bool kOfficial, bool kShared>
__global__ void __launch_bounds__(kThreads, 2) dtn_plain_forward_kernel(ForwardArguments a) {
  const DtnSizes& sizes = a.sizes;
  const Slice s(sizes, a.slicing, a.range);
  DTN_SHARED(DtnSpan, spans);
  const int matrix = s.head - a.range.first_head;
  const Reads reads(a.rows, a.columns, matrix, spans);
  auto* shared = reinterpret_cast<float*>(spans + AxisReads::count(sizes));
  float* plane = planes_of_block<kShared>(a.slicing, kPlanes, shared + kThreads, a.scratch);
  float *z1 = plane + a.slicing.plane, *z2 = z1 + a.slicing.plane;
  const std::int64_t tokens = s.image * sizes.tokens, start = s.image * sizes.image + s.channel;
  const T* x = static_cast<const T*>(a.args.x) + start;
  const double* scale = nullptr;
  if constexpr (kOfficial) {
    scale = static_cast<const double*>(a.args.head_rstd) +
            (s.image * sizes.heads + s.head) * sizes.tokens;
  }

  const float pivot = make_pivot<kOfficial>(s, x, sizes.channels, scale, sizes.tokens, shared);
  if (s.group == 0) {
    static_cast<float*>(a.args.pivot)[s.image * sizes.channels + s.channel] = pivot;
  }
#pragma unroll 4
  for (int t = s.group; t < sizes.tokens; t += s.groups) {
    plane[t * s.width + s.index] = centred<kOfficial>(x[t * sizes.channels], scale, t, pivot);
  }
  __syncthreads();
  row_pass(sizes, s, a.rows, reads.rows, a.rows.p_transposed + matrix * a.rows.per_head(), plane,
           z1, z2);
  __syncthreads();

  const float mean_share = static_cast<const float*>(a.args.lambda_mean)[s.head];
  const float var_share = static_cast<const float*>(a.args.lambda_var)[s.head];
  const float weight = static_cast<const float*>(a.args.weight)[s.channel];
  const float bias = static_cast<const float*>(a.args.bias)[s.channel];
  const float* token_mean = static_cast<const float*>(a.args.token_mean) + tokens;
  const float* token_var = static_cast<const float*>(a.args.token_var) + tokens;
  const float offset = a.bases[s.image] - pivot;
  T* y = static_cast<T*>(a.args.y) + start;
  const float* columns = a.columns.p_transposed + matrix * a.columns.per_head();
  s.for_each_block(sizes.grid_h, sizes.grid_w, [&](int first, int column) {
    const int from = column * s.width + s.index;
    float m1[kOutputs], m2[kOutputs];
    pass<false>(columns + first, a.columns.stride, reads.columns.forth[first / kOutputs], z1 + from,
                z2 + from, sizes.grid_w * s.width, m1, m2);
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      const int row = std::min(first + k, sizes.grid_h - 1), t = row * sizes.grid_w + column;
      const float m = m1[k];
      float v = m2[k] - m * m;
      if (!kOfficial && v < 0) v = 0;
      const float mu = mean_share * (__ldg(token_mean + t) + offset) + (1 - mean_share) * m;
      const float var = (1 - var_share) * v + (var_share * __ldg(token_var + t) + sizes.eps);
      const float xhat = (plane[t * s.width + s.index] - mu) * rsqrtf(var);
      if (first + k < sizes.grid_h) {
        y[t * sizes.channels] = cuda::from_float<T>(xhat * weight + bias);
      }
    }
  });
}

}  // namespace
}  // namespace plain

void run_plain(CudaQueue& queue, const DtnNormForward& args) {
  using namespace plain;
  const DtnSizes sizes(args);
  const Slicing slicing(sizes, kPlanes);
  const PlaneScratch scratch(queue, sizes, slicing, kPlanes);
  const std::size_t shared_bytes = slicing.shared_bytes(kThreads);
  for_each_wave_of_heads(sizes, 2, [&](int first_head, int heads) {
    const DtnPrepared prepared = prepare(queue, args, first_head, heads);
    if (first_head == 0) token_statistics(queue, args, prepared.bases.get());
    auto launch_range = [&](const Range& range, std::int64_t blocks) {
      const ForwardArguments a{args,
                               sizes,
                               slicing,
                               range,
                               prepared.positions.rows,
                               prepared.positions.columns,
                               prepared.bases.get(),
                               scratch.memory.get()};
      auto launch_kernel = [&](auto kernel) {
        launch(queue,
               {"dtn_plain_forward",
                {sizes.batch, sizes.grid_h, sizes.grid_w, sizes.channels, sizes.heads}},
               kernel, {blocks_for(blocks, 1), kThreads, shared_bytes}, a);
      };
      for_dtn_variant("dtn_plain_forward", args, [&]<class T, bool kOfficial>() {
        slicing.in_shared ? launch_kernel(dtn_plain_forward_kernel<T, kOfficial, true>)
                          : launch_kernel(dtn_plain_forward_kernel<T, kOfficial, false>);
      });
    };
    for_each_launch(sizes, slicing, scratch.slices, first_head, heads, launch_range);
  });
}

}  // namespace dtn
