// Images drawn in batches, and their picture.
#include "tasks/diffusion/sample_images.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tasks/diffusion/sample_grid.h"
#include "tensors.h"

namespace dtn::test {
namespace {

// A denoiser of each image by itself.
Tensor shrink(const Tensor& x, const Tensor& t, const Tensor& label) {
  Tensor output = Tensor::empty_like(x);
  const std::int64_t each = x.numel() / x.dim(0);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    output.data<float>()[i] = 0.5f * x.data<float>()[i] +
                              1e-4f * static_cast<float>(t.data<std::int64_t>()[i / each]) -
                              0.1f * static_cast<float>(label.data<std::int64_t>()[i / each]);
  }
  return output;
}

SampleRequest request_of(std::int64_t n, std::int64_t batch, std::uint64_t seed = 7) {
  SampleRequest request{.labels = {}, .image = {3, 5, 7}, .seed = seed, .batch = batch};
  for (std::int64_t i = 0; i < n; ++i) request.labels.push_back(i % 4);
  return request;
}

TEST(SampleImages, AnImageDoesNotDependOnTheOthers) {
  for (SamplerKind kind : {SamplerKind::kDdim, SamplerKind::kDdpm}) {
    const Sampler sampler(DiffusionConfig{}, {.kind = kind, .steps = 8});
    const Tensor all = sample_images(sampler, shrink, kCpu, request_of(11, 64));
    for (std::int64_t batch : {1, 3, 4, 11}) {
      for (int threads : {1, 3}) {
        Threads scope(threads);
        EXPECT_TRUE(same_bits(sample_images(sampler, shrink, kCpu, request_of(11, batch)), all));
      }
    }
    EXPECT_TRUE(same_bits(sample_images(sampler, shrink, kCpu, request_of(5, 64)),
                          all.slice(0, 5).clone()));
    const Tensor other = sample_images(sampler, shrink, kCpu, request_of(11, 64, 8));
    for (std::int64_t i = 0; i < 11; ++i) {
      EXPECT_FALSE(same_bits(other.slice(i, i + 1).clone(), all.slice(i, i + 1).clone()));
    }
  }
}

TEST(SampleImages, NoiseDiffersByImageStepAndSeed) {
  const ImageNoise noise(1, {1, 32, 32}, kCpu), other(2, {1, 32, 32}, kCpu);
  std::vector<Tensor> draws = {other.start(0, 1)};
  for (std::int64_t image : {0, 1, 2}) {
    draws.push_back(noise.start(image, 1));
    for (std::int64_t step : {0, 1, 2}) draws.push_back(noise.step(image, 1, step));
  }
  for (std::size_t a = 0; a < draws.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      double product = 0;
      for (std::int64_t i = 0; i < 1024; ++i) {
        product += static_cast<double>(draws[a].data<float>()[i]) * draws[b].data<float>()[i];
      }
      // The product of independent normal numbers has the deviation sqrt(1024).
      EXPECT_LT(std::abs(product), 5 * 32) << a << " " << b;
    }
  }
}

TEST(SampleImages, TakesGivenNoise) {
  const Sampler sampler(DiffusionConfig{}, {.kind = SamplerKind::kDdpm, .steps = 6});
  const ImageNoise noise(7, {3, 5, 7}, kCpu);
  SampleRequest request = request_of(5, 2);
  request.noise.x = noise.start(0, 5);
  request.noise.z = Tensor::empty({6, 5, 3, 5, 7}, DType::kFloat32);
  for (std::int64_t k = 0; k < 6; ++k) {
    request.noise.z.slice(k, k + 1).copy_from(noise.step(0, 5, k));
  }
  const Tensor drawn = sample_images(sampler, shrink, kCpu, request_of(5, 2));
  const Tensor before = request.noise.x.clone();
  request.seed = 99;
  EXPECT_TRUE(same_bits(sample_images(sampler, shrink, kCpu, request), drawn));
  EXPECT_TRUE(same_bits(request.noise.x, before));  // not overwritten
}

TEST(SampleImages, ReportsProgressAndStops) {
  const Sampler sampler(DiffusionConfig{}, {.steps = 4});
  SampleRequest request = request_of(5, 3);
  std::vector<std::int64_t> seen;
  request.on_progress = [&](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(total, 20);
    seen.push_back(done);
    return true;
  };
  sample_images(sampler, shrink, kCpu, request);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 3, 6, 9, 12, 12, 14, 16, 18, 20}));
  request.on_progress = [](std::int64_t done, std::int64_t) { return done < 14; };
  EXPECT_FALSE(sample_images(sampler, shrink, kCpu, request).defined());
}

Tensor constant_samples(std::int64_t n, std::int64_t channels) {
  Tensor samples = Tensor::empty({n, channels, 2, 3}, DType::kFloat32);
  for (std::int64_t i = 0; i < samples.numel(); ++i) {
    // Brightness 10 (sample + 1) + channel.
    const auto value = static_cast<float>(10 * (i / (6 * channels) + 1) + i / 6 % channels);
    samples.data<float>()[i] = value / 127.5f - 1;
  }
  return samples;
}

TEST(SampleGrid, PlacesSamplesInRows) {
  for (int channels : {1, 3}) {
    const Image grid = sample_grid(constant_samples(5, channels));
    ASSERT_EQ(grid.width, 9);
    ASSERT_EQ(grid.height, 4);
    ASSERT_EQ(grid.channels, channels);
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 9; ++x) {
        const int sample = y / 2 * 3 + x / 3;
        for (int c = 0; c < channels; ++c) {
          const int expected = sample < 5 ? 10 * (sample + 1) + c : 0;
          EXPECT_EQ(grid.pixels[static_cast<std::size_t>((y * 9 + x) * channels + c)], expected);
        }
      }
    }
  }
}

TEST(SampleGrid, HasTheLeastSquareOfColumns) {
  const std::vector<std::pair<std::int64_t, std::pair<int, int>>> sizes = {
      {1, {1, 1}}, {2, {2, 1}}, {4, {2, 2}}, {7, {3, 3}}, {10, {4, 3}}, {12, {4, 3}}, {64, {8, 8}}};
  for (const auto& [n, places] : sizes) {
    const Image grid = sample_grid(Tensor::zeros({n, 1, 2, 3}, DType::kFloat32));
    EXPECT_EQ(grid.width, 3 * places.first) << n;
    EXPECT_EQ(grid.height, 2 * places.second) << n;
  }
}

TEST(SampleGrid, HasTheGivenColumns) {
  const Image grid = sample_grid(constant_samples(5, 1), 2);
  ASSERT_EQ(grid.width, 6);
  ASSERT_EQ(grid.height, 6);
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 6; ++x) {
      const int sample = y / 2 * 2 + x / 3;
      EXPECT_EQ(grid.pixels[static_cast<std::size_t>(y * 6 + x)],
                sample < 5 ? 10 * (sample + 1) : 0);
    }
  }
  EXPECT_EQ(sample_grid(constant_samples(2, 1), 4).width, 12) << "black where no sample is";
}

TEST(SampleGrid, RoundsAndLimitsValues) {
  const std::vector<float> values = {-2, -1, -0.9999f, 0, 1, 2, NAN, INFINITY, -INFINITY, 0.5f};
  const std::vector<int> expected = {0, 0, 0, 128, 255, 255, 0, 255, 0, 191};
  const Image grid = sample_grid(Tensor::from(values, {1, 1, 1, 10}));
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(grid.pixels[i], expected[i]) << i;
}

TEST(SampleGrid, RefusesOtherChannels) {
  EXPECT_THROW(sample_grid(Tensor::zeros({1, 4, 2, 2}, DType::kFloat32)), Error);
  EXPECT_THROW(sample_grid(Tensor::zeros({0, 3, 2, 2}, DType::kFloat32)), Error);
}

}  // namespace
}  // namespace dtn::test
