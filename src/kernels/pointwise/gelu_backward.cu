// Backward pass of an MLP's activation; see gelu_backward.h. z and dh are read once. dz and, if
// requested, h are written once. The minimum memory traffic is 3 or 4 sizeof(T) bytes per element.
//
// With dbias, a block takes a strip of columns, 16 bytes per lane, in a chunk of rows. Its warps
// take the rows in turn, and their column sums are added in shared memory at the end. A second
// kernel adds up the partial sums, 4 bytes per column for 64 rows or more.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/partials.cuh"
#include "kernels/gemm/linear.h"
#include "kernels/pointwise/gated_terms.cuh"
#include "kernels/pointwise/gelu_backward.h"
#include "kernels/pointwise/gelu_terms.cuh"

namespace dtn {
namespace {

// A form of GELU with its derivative.
template <class T>
struct ExactGelu {
  static __device__ __forceinline__ GeluAndSlope of(float x) { return gelu_and_slope<T>(x); }
};
template <class T>
struct TanhGelu {
  using Function = Gated<GeluTanhExponent>;
  static __device__ __forceinline__ GeluAndSlope of(float x) {
    return {Function::of(x), Function::of(x, 1.0f)};
  }
};

template <class T, class Form>
struct GeluMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 2;
  const T *z, *dh;
  T *dz, *h;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[2][n]) const {
    cuda::load_values(z + i, v[0]);
    cuda::load_values(dh + i, v[1]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[2][n]) const {
    for (int k = 0; k < n; ++k) {
      const GeluAndSlope g = Form::of(v[0][k]);
      v[0][k] = g.value;
      v[1][k] *= g.slope;
    }
    cuda::store_values(dz + i, v[1]);
    cuda::store_values(h + i, v[0]);
  }
};

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / cuda::kWarpSize;
constexpr int kRowsTogether = 2;  // per warp: four loads of 16 bytes in flight per lane
constexpr std::int64_t kMinRows = 64;

template <class T>
struct Strips {
  std::int64_t rows, columns;
  const T *z, *dh;
  T *dz, *h;
  std::int64_t strips, rows_per_chunk;
  float* partials;  // [chunks, columns]
};

// Number of values that a lane holds of a row of a strip.
template <class T, bool kWide>
constexpr int kValues = kWide ? cuda::kPerVector<T> : 2;
template <class T, bool kWide>
using StripRow = cuda::LaneValues<T, kValues<T, kWide>, kWide>;

// Blocks: one per chunk and strip.
template <class T, class Form, bool kWide, bool kMakesH>
__global__ void __launch_bounds__(kThreads, kWide ? 4 : 2) mlp_gelu_backward_kernel(Strips<T> a) {
  using Row = StripRow<T, kWide>;
  constexpr int kRun = Row::kRun;
  DTN_SHARED(float, shared);  // [kWarps, Row::kColumns]
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const std::int64_t chunk = blockIdx.x / a.strips;
  const std::int64_t column = blockIdx.x % a.strips * Row::kColumns;
  const std::int64_t left = a.columns - column;
  const int columns = left < Row::kColumns ? static_cast<int>(left) : Row::kColumns;
  const std::int64_t begin = chunk * a.rows_per_chunk;
  const std::int64_t end = begin + a.rows_per_chunk < a.rows ? begin + a.rows_per_chunk : a.rows;

  float sums[kValues<T, kWide>] = {};
  for (std::int64_t row = begin + warp * kRowsTogether; row < end; row += kWarps * kRowsTogether) {
    Row z[kRowsTogether], dh[kRowsTogether];
#pragma unroll
    for (int r = 0; r < kRowsTogether; ++r) {
      const std::int64_t offset = (row + r) * a.columns + column;
      z[r].load(a.z + offset, lane, row + r < end ? columns : 0);
      dh[r].load(a.dh + offset, lane, row + r < end ? columns : 0);
    }
#pragma unroll
    for (int r = 0; r < kRowsTogether; ++r) {
      if (row + r >= end) continue;
#pragma unroll
      for (int i = 0; i < kValues<T, kWide>; i += kRun) {
        const int c = Row::column(lane, i);
        if (c >= columns) continue;
        float dz[kRun], h[kRun];
#pragma unroll
        for (int k = 0; k < kRun; ++k) {
          const GeluAndSlope g = Form::of(z[r][i + k]);
          h[k] = g.value;
          dz[k] = dh[r][i + k] * g.slope;
          sums[i + k] += dz[k];
        }
        const std::int64_t at = (row + r) * a.columns + column + c;
        Row::store_run(a.dz + at, dz);
        if constexpr (kMakesH) Row::store_run(a.h + at, h);
      }
    }
  }

  Row::store_floats(shared + warp * Row::kColumns, lane, columns, sums);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += kThreads) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared[w * Row::kColumns + c];
    a.partials[chunk * a.columns + column + c] = sum;
  }
}

template <class Form, bool kWide, class T>
void launch_strips(CudaQueue& queue, Strips<T> a, std::int64_t chunks) {
  using Row = StripRow<T, kWide>;
  a.strips = (a.columns + Row::kColumns - 1) / Row::kColumns;
  launch(queue, {"mlp_gelu_backward", {a.rows, a.columns}},
         a.h ? mlp_gelu_backward_kernel<T, Form, kWide, true>
             : mlp_gelu_backward_kernel<T, Form, kWide, false>,
         {blocks_for(chunks * a.strips, 1), kThreads, kWarps * Row::kColumns * sizeof(float)}, a);
}

template <class T, class Form>
void run_form(CudaQueue& queue, const MlpGeluBackward& args) {
  auto* z = static_cast<const T*>(args.z);
  auto* dh = static_cast<const T*>(args.dh);
  auto* dz = static_cast<T*>(args.dz);
  auto* h = static_cast<T*>(args.h);
  if (!args.dbias) {
    const std::int64_t count = args.rows * args.columns;
    return cuda::launch_map(queue, "mlp_gelu_backward", GeluMap<T, Form>{z, dh, dz, h}, count,
                            cuda::all_aligned(z, dh, dz, h));
  }
  const std::int64_t rows_per_chunk =
      cuda::rows_per_chunk(args.rows, kMinRows, kWarps * kRowsTogether);
  const std::int64_t chunks = (args.rows + rows_per_chunk - 1) / rows_per_chunk;
  auto partials = queue.scratch<float>(chunks * args.columns);
  Strips<T> a{args.rows, args.columns, z, dh, dz, h, 0, rows_per_chunk, partials.get()};
  // A null h counts as aligned.
  if (cuda::all_aligned(z, dh, dz, h) && cuda::is_vectorizable<T>(z, args.columns)) {
    launch_strips<Form, true>(queue, a, chunks);
  } else {
    launch_strips<Form, false>(queue, a, chunks);
  }
  cuda::Partials sums{partials.get(), chunks, args.columns, 1, {}};
  sums.totals[0] = static_cast<float*>(args.dbias);
  cuda::add_partials(queue, "gelu_add_partials", sums);
}

// The pass without h and dbias.
void run_alone(CudaQueue& queue, const MlpGeluBackward& args) {
  const std::int64_t count = args.rows * args.columns;
  if (args.gelu_tanh) {
    return run(queue, ActivationBackward{args.dtype, Activation::kGeluTanh, count, args.z, args.dh,
                                         args.dz});
  }
  run(queue, GeluBackward{args.dtype, count, args.z, args.dh, args.dz});
}

}  // namespace

void run(CudaQueue& queue, const MlpGeluBackward& args) {
  for_cuda_dtype("mlp_gelu_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0 || args.columns == 0) return;
    if (!args.dbias && !args.h) return run_alone(queue, args);
    args.gelu_tanh ? run_form<T, TanhGelu<T>>(queue, args) : run_form<T, ExactGelu<T>>(queue, args);
  });
}

}  // namespace dtn
