// Steps of sampling and their noise; see sampler_step.h:
//    x = of_start (from_noisy x - from_noise e) + of_noisy x + sigma z
#include "kernels/image/sampler_step.h"

#include <algorithm>

#include "core/normal_noise.h"
#include "dtn/core/parallel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kBlock = 512;      // values that stay in the first-level cache
constexpr std::int64_t kChunk = 1 << 14;  // values per task; a multiple of kBlock and of a group

// e = unlabelled + guidance (labelled - unlabelled)
void guide(const float* labelled, const float* unlabelled, std::int64_t n, float guidance,
           float* __restrict e) {
  for (std::int64_t i = 0; i < n; ++i) {
    e[i] = __builtin_fmaf(guidance, labelled[i] - unlabelled[i], unlabelled[i]);
  }
}

void learned_sigmas(const float* v, std::int64_t n, float low, float high, float* sigma) {
  for_each_vector<float>(n, [=](std::int64_t i, auto count) {
    const VecF share = 0.5f * load_n(v + i, count) + 0.5f;
    store_n(sigma + i, exp(share * (high - low) + low), count);
  });
}

void starts(const float* x, const float* e, std::int64_t n, const SamplerStep& args,
            float* __restrict start) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float s = __builtin_fmaf(args.from_noisy, x[i], -(args.from_noise * e[i]));
    start[i] = !args.clip ? s : s > 1 ? 1 : s < -1 ? -1 : s;
  }
}

// Values [at, at + n) of a plane; n <= kBlock.
void step_block(const SamplerStep& args, std::int64_t b, std::int64_t c, std::int64_t at,
                std::int64_t n) {
  const std::int64_t in_x = (b * args.channels + c) * args.pixels + at;
  const std::int64_t in_output = (b * args.output_channels + c) * args.pixels + at;
  float* x = args.x + in_x;
  const float* e = args.output + in_output;
  float mixed[kBlock], start[kBlock], sigma[kBlock];
  if (args.unlabelled && c < args.guided) {
    guide(e, args.unlabelled + in_output, n, args.guidance, mixed);
    e = mixed;
  }
  starts(x, e, n, args, start);
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = __builtin_fmaf(args.of_start, start[i], args.of_noisy * x[i]);
  }
  if (!args.z) return;
  if (args.learned) {
    learned_sigmas(args.output + in_output + args.channels * args.pixels, n, args.log_sigma_low,
                   args.log_sigma_high, sigma);
  } else {
    std::fill_n(sigma, n, args.sigma);
  }
  const float* z = args.z + in_x;
  for (std::int64_t i = 0; i < n; ++i) x[i] = __builtin_fmaf(sigma[i], z[i], x[i]);
}

}  // namespace

void run(CpuQueue&, const SamplerStep& args) {
  const std::int64_t chunks = (args.pixels + kChunk - 1) / kChunk;
  parallel_for(args.batch * args.channels * chunks, [=, &args](std::int64_t task) {
    const std::int64_t plane = task / chunks, first = task % chunks * kChunk;
    const std::int64_t end = std::min(args.pixels, first + kChunk);
    for (std::int64_t at = first; at < end; at += kBlock) {
      step_block(args, plane / args.channels, plane % args.channels, at,
                 std::min(kBlock, end - at));
    }
  });
}

void run(CpuQueue&, const NormalNoise& args) {
  const std::int64_t chunks = (args.values + kChunk - 1) / kChunk;
  parallel_for(args.batch * chunks, [=, &args](std::int64_t task) {
    const std::int64_t b = task / chunks, first = task % chunks * kChunk;
    write_noise(static_cast<std::uint64_t>(args.seeds[b]), static_cast<std::uint64_t>(first),
                std::min(kChunk, args.values - first), args.noise + b * args.values + first);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(SamplerStep)
DTN_DISPATCH(NormalNoise)
