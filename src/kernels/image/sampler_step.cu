// Steps of sampling and their noise; see sampler_step.h:
//    x = of_start (from_noisy x - from_noise e) + of_noisy x + sigma z
// A step passes over memory once, in vectors where the planes are aligned. It is far cheaper than a
// run of the model. A thread of the noise draws a group of random words, which are 8 values.
#include "core/normal_noise.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/image/sampler_step.h"

namespace dtn {
namespace {

// Element i of x. Inputs: x, e, unlabelled e, v and z; those that are absent are not loaded.
template <class Index>
struct SamplerStepMap {
  static constexpr int kWidth = 4, kVectors = 1, kInputs = 5;
  SamplerStep args;

  struct Place {
    std::int64_t channel, output;
  };
  __device__ Place place(std::int64_t i) const {
    const cuda::RowColumn pixel = cuda::row_and_column<Index>(i, args.pixels);
    const cuda::RowColumn plane = cuda::row_and_column<Index>(pixel.row, args.channels);
    return {plane.column,
            (plane.row * args.output_channels + plane.column) * args.pixels + pixel.column};
  }
  __device__ bool guides(const Place& at) const {
    return args.unlabelled && at.channel < args.guided;
  }

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[5][n]) const {
    const Place at = place(i);
    cuda::load_values(args.x + i, v[0]);
    cuda::load_values(args.output + at.output, v[1]);
    if (guides(at)) cuda::load_values(args.unlabelled + at.output, v[2]);
    if (!args.z) return;
    if (args.learned) {
      cuda::load_values(args.output + at.output + args.channels * args.pixels, v[3]);
    }
    cuda::load_values(args.z + i, v[4]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[5][n]) const {
    const bool guide = guides(place(i));
#pragma unroll
    for (int k = 0; k < n; ++k) {
      float e = v[1][k];
      if (guide) e = __fmaf_rn(args.guidance, e - v[2][k], v[2][k]);
      float x = next(v[0][k], e);
      if (args.z) x = __fmaf_rn(args.learned ? sigma_of(v[3][k]) : args.sigma, v[4][k], x);
      v[0][k] = x;
    }
    cuda::store_values(args.x + i, v[0]);
  }
  __device__ float next(float x, float e) const {
    float start = __fmaf_rn(args.from_noisy, x, -__fmul_rn(args.from_noise, e));
    if (args.clip) start = start > 1 ? 1 : start < -1 ? -1 : start;
    return __fmaf_rn(args.of_start, start, __fmul_rn(args.of_noisy, x));
  }
  __device__ float sigma_of(float v) const {
    const float share = __fmaf_rn(0.5f, v, 0.5f);
    return expf(__fmaf_rn(share, args.log_sigma_high - args.log_sigma_low, args.log_sigma_low));
  }
};

constexpr int kNoiseThreads = 256;

__global__ void normal_noise_kernel(NormalNoise args, std::int64_t groups) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.batch * groups) return;
  const std::int64_t b = i / groups, first = i % groups * kNoisePerGroup;
  const Philox4 words = noise_words(static_cast<std::uint64_t>(args.seeds[b]),
                                    static_cast<std::uint64_t>(i % groups));
  float* noise = args.noise + b * args.values;
#pragma unroll
  for (int k = 0; k < kNoisePerGroup; ++k) {
    if (first + k < args.values) noise[first + k] = noise_of(args.table, words, k);
  }
}

}  // namespace

void run(CudaQueue& queue, const SamplerStep& args) {
  const std::int64_t count = args.batch * args.channels * args.pixels;
  const bool wide =
      args.pixels % 4 == 0 && cuda::all_aligned(args.x, args.output, args.unlabelled, args.z);
  cuda::for_index(count, [&](auto index) {
    cuda::launch_map(queue, "sampler_step", SamplerStepMap<decltype(index)>{args}, count, wide);
  });
}

void run(CudaQueue& queue, const NormalNoise& args) {
  const std::int64_t groups = (args.values + kNoisePerGroup - 1) / kNoisePerGroup;
  if (args.batch * groups == 0) return;
  launch(queue, {"normal_noise", {args.batch, args.values}}, normal_noise_kernel,
         {blocks_for(args.batch * groups, kNoiseThreads), kNoiseThreads}, args, groups);
}

}  // namespace dtn
