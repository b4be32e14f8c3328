// Elementwise parts of Muon, limited by memory bandwidth; see muon.h for the formulas. Products and
// sums are fused where the host compilers fuse them.
#include "kernels/optimizer/update_map.cuh"

namespace dtn {
namespace {

struct MuonMomentumMap : UpdateMap<MuonMomentum, 4, false, &MuonMomentum::m, &MuonMomentum::grad> {
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[2][n]) const {
    if (!f.apply) return;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float g = __fmul_rn(f.rest, __fmul_rn(v[1][k], f.grad_scale));
      v[0][k] = __fmaf_rn(v[0][k], f.keep, g);
      v[1][k] = args.nesterov ? __fmaf_rn(v[0][k], f.keep, g) : v[0][k];
    }
    cuda::store_values(args.m + i, v[0]);
    cuda::store_values(args.update + i, v[1]);
  }
};

struct DivideByNormMap : UpdateMap<DivideByNorm, 4, true, &DivideByNorm::x> {
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[1][n]) const {
#pragma unroll
    for (int k = 0; k < n; ++k) v[0][k] = __fmul_rn(v[0][k], f);
    cuda::store_values(args.x + i, v[0]);
  }
};

// Elements with an index that is a multiple of size + 1 are on the diagonal.
template <class Index>
struct AddDiagonalMap {
  static constexpr int kWidth = 4, kVectors = 4, kInputs = 1;
  const float* x;
  float* y;
  float scale, diagonal;
  std::int64_t size;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[1][n]) const {
    cuda::load_values(x + i, v[0]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[1][n]) const {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      v[0][k] = __fmul_rn(v[0][k], scale);
      if (cuda::row_and_column<Index>(i + k, size + 1).column == 0) v[0][k] += diagonal;
    }
    cuda::store_values(y + i, v[0]);
  }
};

struct MuonStepMap : UpdateMap<MuonStep, 4, false, &MuonStep::param, &MuonStep::update> {
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[2][n]) const {
    if (!f.apply) return;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      v[0][k] = __fmaf_rn(v[0][k], f.decay, __fmul_rn(f.step, v[1][k]));
    }
    store_params(i, v[0]);
  }
};

}  // namespace

void run(CudaQueue& queue, const MuonMomentum& args) {
  cuda::launch_map(queue, "muon_momentum", MuonMomentumMap{{args}}, args.count,
                   cuda::all_aligned(args.m, args.grad, args.update));
}

void run(CudaQueue& queue, const DivideByNorm& args) {
  cuda::launch_map(queue, "divide_by_norm", DivideByNormMap{{args}}, args.count,
                   cuda::all_aligned(args.x), sizeof(float));
}

void run(CudaQueue& queue, const AddDiagonal& args) {
  const std::int64_t count = args.size * args.size;
  cuda::for_index(count, [&](auto index) {
    using Map = AddDiagonalMap<decltype(index)>;
    cuda::launch_map(queue, "add_diagonal",
                     Map{args.x, args.y, static_cast<float>(args.scale),
                         static_cast<float>(args.diagonal), args.size},
                     count, cuda::all_aligned(args.x, args.y));
  });
}

void run(CudaQueue& queue, const MuonStep& args) {
  cuda::launch_map(queue, "muon", MuonStepMap{{args}}, args.count,
                   cuda::all_aligned(args.param, args.update, args.param_bf16));
}

}  // namespace dtn
