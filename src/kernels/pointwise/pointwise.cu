// Small elementwise kernels, limited by memory bandwidth: one pass of 16-byte accesses. See
// pointwise.h for the formulas. Products that are added use explicit fused multiply-adds, so the
// bits do not depend on what the compiler contracts.
#include "kernels/pointwise/map_values.cuh"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

template <class To, class From>
struct CastMap {
  static constexpr int kWidth = 4, kVectors = 4, kInputs = 1;
  const From* x;
  To* y;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[1][n]) const {
    cuda::load_values(x + i, v[0]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[1][n]) const {
    cuda::store_values(y + i, v[0]);
  }
};

struct Sum {
  static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};
struct Logistic {
  static __device__ __forceinline__ float of(float x) { return 1.0f / (1.0f + expf(-x)); }
};

template <class T, class Index, bool kResidual>
struct ScaleRowsMap {
  using Element = T;
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 3;
  const float* scale;
  const T *x, *residual;
  T* y;
  std::int64_t per_scale;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[3][n]) const {
    cuda::load_values(x + i, v[0]);
    if constexpr (kResidual) cuda::load_values(residual + i, v[1]);
    v[2][0] = scale[cuda::row_and_column<Index>(i, per_scale).row];  // a vector lies in one row
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[3][n]) const {
    const float s = v[2][0];
    for (int k = 0; k < n; ++k) {
      v[0][k] = kResidual ? __fmaf_rn(s, v[0][k], v[1][k]) : s * v[0][k];
    }
    cuda::store_values(y + i, v[0]);
  }
};

template <class T, class Index>
struct AddToRowsMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 2;
  const T* x;
  const float* addend;
  T* y;
  std::int64_t columns;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[2][n]) const {
    cuda::load_values(x + i, v[0]);
    cuda::load_values(addend + cuda::row_and_column<Index>(i, columns).column, v[1]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[2][n]) const {
    for (int k = 0; k < n; ++k) v[0][k] += v[1][k];
    cuda::store_values(y + i, v[0]);
  }
};

template <class Map>
void scale_rows(CudaQueue& queue, const ScaleRows& args) {
  using T = typename Map::Element;
  cuda::launch_map(
      queue, "scale_rows",
      Map{static_cast<const float*>(args.scale), static_cast<const T*>(args.x),
          static_cast<const T*>(args.residual), static_cast<T*>(args.y), args.per_scale},
      args.count,
      args.per_scale % Map::kWidth == 0 && cuda::all_aligned(args.x, args.residual, args.y));
}

void require_float32(const char* kernel, DType dtype) {
  if (dtype == DType::kFloat32) return;
  throw Error(cat(kernel, ": ", name_of(dtype), " is not computed on CUDA devices; float32 is"));
}

}  // namespace

void run(CudaQueue& queue, const Cast& args) {
  for_cuda_dtype("cast", args.from, [&](auto from) {
    for_cuda_dtype("cast", args.to, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      if constexpr (std::is_same_v<From, To>) {
        if (args.x == args.y) return;
        run(queue, CopyRows{args.from, 1, args.count, args.x, args.count, args.y, args.count});
      } else {
        cuda::launch_map(
            queue, "cast",
            CastMap<To, From>{static_cast<const From*>(args.x), static_cast<To*>(args.y)},
            args.count, cuda::all_aligned(args.x, args.y));
      }
    });
  });
}

void run(CudaQueue& queue, const Add& args) {
  for_cuda_dtype("add", args.dtype, [&](auto zero) {
    cuda::map_values<decltype(zero), Sum>(queue, "add", args.count, args.y, args.a, args.b);
  });
}

void run(CudaQueue& queue, const ScaleRows& args) {
  for_cuda_dtype("scale_rows", args.dtype, [&](auto zero) {
    cuda::for_index(args.count, [&](auto index) {
      using T = decltype(zero);
      using Index = decltype(index);
      if (args.residual) {
        scale_rows<ScaleRowsMap<T, Index, true>>(queue, args);
      } else {
        scale_rows<ScaleRowsMap<T, Index, false>>(queue, args);
      }
    });
  });
}

void run(CudaQueue& queue, const AddToRows& args) {
  for_cuda_dtype("add_to_rows", args.dtype, [&](auto zero) {
    cuda::for_index(args.rows * args.columns, [&](auto index) {
      using T = decltype(zero);
      using Map = AddToRowsMap<T, decltype(index)>;
      cuda::launch_map(
          queue, "add_to_rows",
          Map{static_cast<const T*>(args.x), static_cast<const float*>(args.addend),
              static_cast<T*>(args.y), args.columns},
          args.rows * args.columns,
          args.columns % Map::kWidth == 0 && cuda::all_aligned(args.x, args.addend, args.y));
    });
  });
}

void run(CudaQueue& queue, const Sigmoid& args) {
  require_float32("sigmoid", args.dtype);
  cuda::map_values<float, Logistic>(queue, "sigmoid", args.count, args.y, args.x);
}

}  // namespace dtn
