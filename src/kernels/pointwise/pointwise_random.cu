// Dropout and drop path. A mask is a function of the key and the element (core/philox.h), so it is
// the same as on the host, for any grid. One call of the generator yields four elements: about 65
// instructions for 16 bytes of bfloat16 traffic. In the time of that traffic, an H200 can issue
// twice as many.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/pointwise/drop_threshold.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

// Numbers of elements, consecutive from the first one.
struct InOrder {
  std::uint64_t first;
  __device__ std::uint64_t operator()(std::int64_t i) const {
    return first + static_cast<std::uint64_t>(i);
  }
};
// Numbers of elements, row by row.
template <class Index>
struct ByRows {
  ElementDropout args;
  __device__ std::uint64_t operator()(std::int64_t i) const {
    const auto at = cuda::row_and_column<Index>(i, args.per_row);
    return args.number_of(at.row) + static_cast<std::uint64_t>(at.column);
  }
};

template <class T, class Number>
struct DropoutMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 1;
  const T* x;
  T* y;
  PhiloxKey key;
  const std::uint32_t* step;
  Number number;
  std::uint32_t threshold;
  float scale;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[1][n]) const {
    cuda::load_values(x + i, v[0]);
  }
  __device__ void prepare() { key = key_at_step(key, step); }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[1][n]) const {
    const std::uint64_t element = number(i);
    if constexpr (n == 1) {
      v[0][0] = masked(v[0][0], philox_u32(key, element));
    } else {  // whole groups: the element's number is a multiple of 4
#pragma unroll
      for (int k = 0; k < n; k += 4) {
        Philox4 words = philox_group(key, (element + static_cast<unsigned>(k)) / 4);
#pragma unroll
        for (int j = 0; j < 4; ++j) v[0][k + j] = masked(v[0][k + j], words.v[j]);
      }
    }
    cuda::store_values(y + i, v[0]);
  }
  __device__ float masked(float v, std::uint32_t word) const {
    return (word >> 8) >= threshold ? v * scale : 0.0f;
  }
};

template <class T, class Number>
void dropout(CudaQueue& queue, const ElementDropout& args, const Number& number,
             bool whole_vectors) {
  cuda::launch_map(queue, "dropout",
                   DropoutMap<T, Number>{static_cast<const T*>(args.x), static_cast<T*>(args.y),
                                         args.key, args.step, number, drop_threshold(args.p),
                                         static_cast<float>(1.0 / (1.0 - args.p))},
                   args.count, whole_vectors && cuda::all_aligned(args.x, args.y));
}

__global__ void drop_path_scales_kernel(DropPathScales args, std::uint32_t threshold, float kept) {
  const std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (b >= args.count) return;
  const PhiloxKey key = key_at_step(args.key, args.step);
  const std::uint64_t element = args.rows ? static_cast<std::uint64_t>(args.rows[b])
                                          : args.first + static_cast<std::uint64_t>(b);
  const std::uint32_t word = philox_u32(key, element);
  static_cast<float*>(args.scale)[b] = (word >> 8) >= threshold ? kept : 0.0f;
}

}  // namespace

void run(CudaQueue& queue, const ElementDropout& args) {
  for_cuda_dtype("dropout", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (!args.by_rows()) return dropout<T>(queue, args, InOrder{args.first}, args.first % 4 == 0);
    cuda::for_index(args.count, [&](auto index) {  // no vector may span two rows
      const bool whole = args.per_row % cuda::kPerVector<T> == 0 && args.stride % 4 == 0 &&
                         (args.rows || args.first % 4 == 0);
      dropout<T>(queue, args, ByRows<decltype(index)>{args}, whole);
    });
  });
}

void run(CudaQueue& queue, const DropPathScales& args) {
  for_cuda_dtype("drop_path_scales", accumulator_of(args.dtype), [&](auto) {
    if (args.count <= 0) return;
    launch(queue, {"drop_path_scales", {args.count}}, drop_path_scales_kernel,
           {blocks_for(args.count, 128), 128}, args, drop_threshold(args.p),
           static_cast<float>(1.0 / (1.0 - args.p)));
  });
}

}  // namespace dtn
