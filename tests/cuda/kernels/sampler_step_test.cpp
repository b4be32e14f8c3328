#include "kernels/image/sampler_step.h"

#include "core/normal_noise.h"
#include "cuda/twin.h"

namespace dtn::test {
namespace {

struct Case {
  std::int64_t batch, channels, pixels, shift;
  bool doubled, guided, clip, noise, learned;
};

TEST(CudaSamplerStep, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Case& c : {Case{2, 1, 37, 0, false, true, true, false, false},
                        {3, 4, 100, 0, true, true, false, true, true},
                        {1, 4, 1030, 0, true, false, true, true, false},
                        {2, 3, 64, 1, false, true, true, true, false},
                        {2, 4, 64, 0, true, false, false, false, false}}) {
    under_every_schedule([&] {
      const std::int64_t outputs = c.channels * (c.doubled ? 2 : 1);
      const Shape of_x{c.batch * c.channels * c.pixels + c.shift};
      const Shape of_output{c.batch * outputs * c.pixels};
      Twin x = random_twin(of_x, DType::kFloat32, 1, 3),
           z = random_twin(of_x, DType::kFloat32, 2, 3);
      Twin output = random_twin(of_output, DType::kFloat32, 3, 3);
      Twin unlabelled = random_twin(of_output, DType::kFloat32, 4, 3);
      for (Where w : {kOnHost, kOnDevice}) {
        const auto at = [w](const Twin& t, std::int64_t shift = 0) {
          return static_cast<float*>(t.at(w)) + shift;
        };
        const SamplerStep args{.batch = c.batch,
                               .channels = c.channels,
                               .pixels = c.pixels,
                               .output_channels = outputs,
                               .output = at(output),
                               .unlabelled = c.guided ? at(unlabelled) : nullptr,
                               .guided = std::min<std::int64_t>(3, c.channels),
                               .guidance = 1.5f,
                               .from_noisy = 1.3f,
                               .from_noise = 0.7f,
                               .clip = c.clip,
                               .of_start = 0.4f,
                               .of_noisy = 0.6f,
                               .z = c.noise ? at(z, c.shift) : nullptr,
                               .sigma = 0.3f,
                               .learned = c.learned,
                               .log_sigma_low = -2.5f,
                               .log_sigma_high = -1.2f,
                               .x = at(x, c.shift)};
        w == kOnHost ? run(cpu_queue(), args) : run(cuda_queue(), args);
      }
      const std::string what = cat(c.batch, " x ", c.channels, " x ", c.pixels);
      if (!c.learned) {
        EXPECT_TRUE(same_bits(x.device(), x.host())) << what;
      }
      const double error = relative_error(doubles(x.device()), doubles(x.host()));
      // exp differs in its last bits.
      EXPECT_LE(error, c.learned ? 8 * unit_roundoff(DType::kFloat32) : 0) << what;
      record_error("sampler_step", what, DType::kFloat32, error, 8 * 0x1p-24);
      return std::vector{x.device()};
    });
  }
}

TEST(CudaNormalNoise, MatchesHostBitForBit) {
  DTN_SKIP_WITHOUT_DEVICE();
  Tensor seeds = Tensor::empty({3}, DType::kInt64);
  for (std::int64_t b = 0; b < 3; ++b) seeds.data<std::int64_t>()[b] = b * 0x123456789abcdef - 4;
  Tensor table = Tensor::empty({kNormalTableSize}, DType::kFloat32);
  std::copy_n(normal_table(), kNormalTableSize, table.data<float>());
  const Twin of_images(seeds), numbers(table);
  for (std::int64_t values : {1, 8, 13, 784}) {
    under_every_schedule([&] {
      Twin noise = Twin::output({3, values}, DType::kFloat32);
      for (Where w : {kOnHost, kOnDevice}) {
        const NormalNoise args{3, values, static_cast<std::int64_t*>(of_images.at(w)),
                               static_cast<float*>(numbers.at(w)),
                               static_cast<float*>(noise.at(w))};
        w == kOnHost ? run(cpu_queue(), args) : run(cuda_queue(), args);
      }
      EXPECT_TRUE(same_bits(noise.device(), noise.host())) << values;
      record_error("normal_noise", cat("3 x ", values), DType::kFloat32,
                   relative_error(doubles(noise.device()), doubles(noise.host())), 0);
      return std::vector{noise.device()};
    });
  }
}

}  // namespace
}  // namespace dtn::test
