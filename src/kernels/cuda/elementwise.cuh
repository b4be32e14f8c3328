// Kernels whose result at an index depends on their inputs at that index and little else. An
// operation defines its loads and stores. map_kernel gives each thread a few vectors, and loads all
// of them before it stores the first, so that enough bytes are in flight to saturate the memory
// bus. Each thread writes only values that it has read itself, so results may overwrite the inputs.
//
//    struct Operation {
//      static constexpr int kWidth;    // elements of a vector
//      static constexpr int kVectors;  // per thread
//      static constexpr int kInputs;   // values loaded for one element
//      template <int n> void load(std::int64_t i, float (&v)[kInputs][n]) const;  // i .. i + n - 1
//      void prepare();  // optional; once per thread after its loads; may be a barrier
//      template <int n> void store(std::int64_t i, float (&v)[kInputs][n]) const;
//    };
#pragma once

#include "kernels/cuda/values.cuh"

namespace dtn::cuda {

inline constexpr int kMapThreads = 256;

// Loads n consecutive values. n is 1, or a multiple of 4. For n > 1 the address is aligned to 16
// bytes, or for n = 4 of bfloat16 to 8 bytes.
template <int n>
__device__ __forceinline__ void load_values(const float* from, float (&to)[n]) {
  if constexpr (n == 1) {
    to[0] = from[0];
  } else {
    static_assert(n % 4 == 0);
#pragma unroll
    for (int k = 0; k < n; k += 4) {
      float4 v = *reinterpret_cast<const float4*>(from + k);
      to[k] = v.x, to[k + 1] = v.y, to[k + 2] = v.z, to[k + 3] = v.w;
    }
  }
}
template <int n>
__device__ __forceinline__ void load_values(const bfloat16* from, float (&to)[n]) {
  if constexpr (n == 1) {
    to[0] = to_float(from[0]);
  } else if constexpr (n == 4) {
    uint2 v = *reinterpret_cast<const uint2*>(from);
    to[0] = low_bfloat16(v.x), to[1] = high_bfloat16(v.x);
    to[2] = low_bfloat16(v.y), to[3] = high_bfloat16(v.y);
  } else {
    load_vector<bfloat16>(from, to);
  }
}

template <int n>
__device__ __forceinline__ void store_values(float* to, const float (&from)[n]) {
  if constexpr (n == 1) {
    to[0] = from[0];
  } else {
    static_assert(n % 4 == 0);
#pragma unroll
    for (int k = 0; k < n; k += 4) {
      *reinterpret_cast<float4*>(to + k) =
          make_float4(from[k], from[k + 1], from[k + 2], from[k + 3]);
    }
  }
}
template <int n>
__device__ __forceinline__ void store_values(bfloat16* to, const float (&from)[n]) {
  if constexpr (n == 1) {
    to[0] = from_float<bfloat16>(from[0]);
  } else if constexpr (n == 4) {
    *reinterpret_cast<uint2*>(to) =
        make_uint2(pack_bfloat16(from[0], from[1]), pack_bfloat16(from[2], from[3]));
  } else {
    store_vector<bfloat16>(to, from);
  }
}

// Row and column of element i in rows of `columns`. Index is the type of the division: 32 bits take
// some 20 instructions, 64 bits several times as many. See for_index().
struct RowColumn {
  std::int64_t row, column;
};
template <class Index>
__device__ __forceinline__ RowColumn row_and_column(std::int64_t i, std::int64_t columns) {
  auto n = static_cast<Index>(i), d = static_cast<Index>(columns);
  return {static_cast<std::int64_t>(n / d), static_cast<std::int64_t>(n % d)};
}

// Calls f(Index{}) with an unsigned type that can hold `count`.
template <class F>
void for_index(std::int64_t count, F&& f) {
  if (count <= UINT32_MAX) return f(std::uint32_t{});
  f(std::uint64_t{});
}

// Processes the vectors of one thread: the one at element `first`, then every kMapThreads-th
// vector. With kWhole there are no bounds tests between the loads.
template <bool kWhole, int n, class Operation>
__device__ __forceinline__ void map_vectors(Operation& op, std::int64_t first, std::int64_t count) {
  constexpr int vectors = Operation::kVectors;
  float v[vectors][Operation::kInputs][n];
#pragma unroll
  for (int j = 0; j < vectors; ++j) {
    std::int64_t i = first + j * kMapThreads * n;
    if (kWhole || i + n <= count) op.load(i, v[j]);
  }
  if constexpr (requires { op.prepare(); }) op.prepare();
#pragma unroll
  for (int j = 0; j < vectors; ++j) {
    std::int64_t i = first + j * kMapThreads * n;
    if (kWhole || i + n <= count) op.store(i, v[j]);
  }
}

template <int n, class Operation>
__global__ void __launch_bounds__(kMapThreads) map_kernel(Operation op, std::int64_t count) {
  constexpr std::int64_t per_block = std::int64_t{kMapThreads} * n * Operation::kVectors;
  const std::int64_t begin = blockIdx.x * per_block;
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  if (begin + per_block <= count) {
    map_vectors<true, n>(op, begin + thread * n, count);
    return;
  }
  map_vectors<false, n>(op, begin + thread * n, count);
  if constexpr (n > 1) {  // elements after the last vector: one for each of the first threads
    const std::int64_t rest = count % n;
    if (thread < rest) {
      float last[Operation::kInputs][1];
      op.load(count - rest + thread, last);
      op.store(count - rest + thread, last);
    }
  }
}

// Runs `op` on elements 0 .. count - 1, in vectors if `wide`, otherwise one by one. With `wide` the
// caller guarantees that every vector of kWidth elements from a multiple of kWidth on is aligned.
template <class Operation>
void launch_map(CudaQueue& queue, const char* name, const Operation& op, std::int64_t count,
                bool wide, std::size_t shared_bytes = 0) {
  if (count <= 0) return;
  auto run_width = [&]<int n>(std::integral_constant<int, n>) {
    launch(queue, {name, {count}}, map_kernel<n, Operation>,
           {blocks_for(count, std::int64_t{kMapThreads} * n * Operation::kVectors), kMapThreads,
            shared_bytes},
           op, count);
  };
  if (wide) {
    run_width(std::integral_constant<int, Operation::kWidth>{});
  } else {
    run_width(std::integral_constant<int, 1>{});
  }
}

template <class... P>
bool all_aligned(const P*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace dtn::cuda
