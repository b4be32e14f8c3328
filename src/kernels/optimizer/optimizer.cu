// Optimizer updates, limited by memory bandwidth: one pass of 16-byte accesses over the flat
// buffers. AdamW moves 30 bytes per element with its bfloat16 copy (28 without): 22 million
// parameters take 154 us at 4.3 TB/s. Inputs that change from step to step are read on the device,
// so a captured step needs nothing from the host. Each block computes the scalar factors in float64
// while its loads are in flight; prepare_update computes the powers of the bias corrections once.
// See optimizer.h for the formulas.
//
// Products and sums are fused exactly where the host compilers fuse them.
#include "kernels/cuda/sums.cuh"
#include "kernels/optimizer/update_map.cuh"

namespace dtn {
namespace {

struct AdamWMap : UpdateMap<AdamWStep, 2, true, &AdamWStep::param, &AdamWStep::m, &AdamWStep::v,
                            &AdamWStep::grad> {
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[4][n]) const {
    if (!f.apply) return;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float g = __fmul_rn(v[3][k], f.grad_scale);
      const float m = __fmaf_rn(v[1][k], f.beta1, __fmul_rn(f.rest1, g));
      const float s = __fmaf_rn(v[2][k], f.beta2, __fmul_rn(__fmul_rn(f.rest2, g), g));
      const float root = __fdiv_rn(__fsqrt_rn(s), f.root_correction2);
      const float update = __fdiv_rn(__fmul_rn(f.step, m), __fadd_rn(root, f.eps));
      v[0][k] = __fmaf_rn(v[0][k], f.decay, update);
      v[1][k] = m;
      v[2][k] = s;
    }
    cuda::store_values(args.m + i, v[1]);
    cuda::store_values(args.v + i, v[2]);
    store_params(i, v[0]);
  }
};

// The buffer is also loaded at the first step, but not used then.
template <bool kMomentum>
using SgdBuffers = std::conditional_t<
    kMomentum,
    UpdateMap<SgdStep, 2, false, &SgdStep::param, &SgdStep::grad, &SgdStep::momentum_buffer>,
    UpdateMap<SgdStep, 2, false, &SgdStep::param, &SgdStep::grad>>;

template <bool kMomentum>
struct SgdMap : SgdBuffers<kMomentum> {
  using SgdBuffers<kMomentum>::args, SgdBuffers<kMomentum>::f;

  template <int kInputs, int n>
  __device__ void store(std::int64_t i, float (&v)[kInputs][n]) const {
    if (!f.apply) return;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float g = __fmaf_rn(v[1][k], f.grad_scale, __fmul_rn(f.decay, v[0][k]));
      float move = g;
      if constexpr (kMomentum) {
        if (!f.first) move = __fmaf_rn(f.momentum, v[2][k], g);
        v[2][k] = move;
        if (args.nesterov) move = __fmaf_rn(f.momentum, move, g);
      }
      v[0][k] = __fmaf_rn(f.step, move, v[0][k]);
    }
    if constexpr (kMomentum) cuda::store_values(args.momentum_buffer + i, v[2]);
    this->store_params(i, v[0]);
  }
};

struct LionMap : UpdateMap<LionStep, 2, false, &LionStep::param, &LionStep::m, &LionStep::grad> {
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[3][n]) const {
    if (!f.apply) return;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float g = __fmul_rn(v[2][k], f.grad_scale);
      const float direction = __fmaf_rn(v[1][k], f.beta1, __fmul_rn(f.rest1, g));
      const float step = direction > 0 ? f.step : direction < 0 ? -f.step : 0.0f;
      v[0][k] = __fmaf_rn(v[0][k], f.decay, step);
      v[1][k] = __fmaf_rn(v[1][k], f.beta2, __fmul_rn(f.rest2, g));
    }
    cuda::store_values(args.m + i, v[1]);
    store_params(i, v[0]);
  }
};

struct EmaMap : UpdateMap<EmaStep, 4, true, &EmaStep::average, &EmaStep::param> {
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[2][n]) const {
    if (!f.apply) return;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float next = __fmaf_rn(f.decay, v[0][k], __fmul_rn(f.rest, v[1][k]));
      v[0][k] = v[0][k] == v[1][k] ? v[0][k] : next;  // without rounding
    }
    cuda::store_values(args.average + i, v[0]);
  }
};

struct SettleMap {
  static constexpr int kWidth = 4, kVectors = 1, kInputs = 2;
  float *value, *next;
  const UpdateState* state;
  bool apply;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[2][n]) const {
    cuda::load_values(value + i, v[0]);
    cuda::load_values(next + i, v[1]);
  }
  __device__ void prepare() { apply = is_applied(state); }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[2][n]) const {
    apply ? cuda::store_values(value + i, v[1]) : cuda::store_values(next + i, v[0]);
  }
};

struct Square {
  static __device__ double of(float v) {
    const double d = static_cast<double>(v);
    return d * d;
  }
};
struct StoreSum {
  double* result;
  __device__ void operator()(double sum) const { *result = sum; }
};

__global__ void prepare_update_kernel(PrepareUpdate args) {
  if (threadIdx.x == 0) prepare_update(args);
}

__global__ void prepare_late_update_kernel(PrepareLateUpdate args) {
  if (threadIdx.x == 0) prepare_late_update(args);
}

}  // namespace

void run(CudaQueue& queue, const PrepareUpdate& args) {
  launch(queue, {"prepare_update"}, prepare_update_kernel, {1, 32}, args);
}

void run(CudaQueue& queue, const PrepareLateUpdate& args) {
  launch(queue, {"prepare_late_update"}, prepare_late_update_kernel, {1, 32}, args);
}

void run(CudaQueue& queue, const AdamWStep& args) {
  cuda::launch_map(queue, "adamw", AdamWMap{{args}}, args.count,
                   cuda::all_aligned(args.param, args.m, args.v, args.grad, args.param_bf16),
                   sizeof(AdamWFactors));
}

void run(CudaQueue& queue, const SgdStep& args) {
  const bool wide = cuda::all_aligned(args.param, args.momentum_buffer, args.grad, args.param_bf16);
  if (args.momentum != 0) {
    cuda::launch_map(queue, "sgd", SgdMap<true>{{args}}, args.count, wide);
  } else {
    cuda::launch_map(queue, "sgd", SgdMap<false>{{args}}, args.count, wide);
  }
}

void run(CudaQueue& queue, const LionStep& args) {
  cuda::launch_map(queue, "lion", LionMap{{args}}, args.count,
                   cuda::all_aligned(args.param, args.m, args.grad, args.param_bf16));
}

void run(CudaQueue& queue, const EmaStep& args) {
  cuda::launch_map(queue, "ema", EmaMap{{args}}, args.count,
                   cuda::all_aligned(args.average, args.param), sizeof(EmaFactors));
}

void run(CudaQueue& queue, const CommitBuffers& args) {
  DTN_CHECK(args.dtype == DType::kFloat32, "commit_buffers on CUDA is float32, not ",
            name_of(args.dtype));
  auto* value = static_cast<float*>(args.value);
  auto* next = static_cast<float*>(args.next);
  cuda::launch_map(queue, "commit_buffers", SettleMap{value, next, args.state, true}, args.count,
                   cuda::all_aligned(value, next));
}

void run(CudaQueue& queue, const SumSquares& args) {
  cuda::launch_sum<Square>(queue, "sum_squares", args.x, args.count, StoreSum{args.result});
}

}  // namespace dtn
