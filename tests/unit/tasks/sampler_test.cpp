// Samplers with denoisers that are known exactly. Data with the distribution N(m, s^2) in each
// element have noisy values x_t with N(sqrt(abar) m, abar s^2 + 1 - abar), so the noise expected in
// x is
//    e = sqrt(1 - abar) (x - sqrt(abar) m) / (abar s^2 + 1 - abar)
#include "tasks/diffusion/sampler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tasks/diffusion/sample_images.h"
#include "tensors.h"

namespace dtn::test {
namespace {

// Denoiser of N(m, s^2); the label k adds k to the mean, and the label -1 means none.
struct GaussianData {
  double m, s;
  std::int64_t output_channels;  // the channels after those of x are v
  float v = 0;

  Tensor operator()(const Tensor& x, const Tensor& t, const Tensor& label) const {
    static const DiffusionProcess process{DiffusionConfig{}};
    const std::int64_t n = x.dim(0), channels = x.dim(1), pixels = x.dim(2) * x.dim(3);
    Tensor output = Tensor::full({n, output_channels, x.dim(2), x.dim(3)}, DType::kFloat32, v);
    for (std::int64_t i = 0; i < n; ++i) {
      const double a = process.at(t.data<std::int64_t>()[i]).alpha_bar;
      const std::int64_t k = label.data<std::int64_t>()[i];
      const double mean = m + (k < 0 ? 0 : static_cast<double>(k));
      for (std::int64_t j = 0; j < channels * pixels; ++j) {
        const double value = x.data<float>()[i * channels * pixels + j];
        output.data<float>()[i * output_channels * pixels + j] = static_cast<float>(
            std::sqrt(1 - a) * (value - std::sqrt(a) * mean) / (a * s * s + 1 - a));
      }
    }
    return output;
  }
};

Tensor labels(std::vector<std::int64_t> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {n});
}

Tensor no_noise(std::int64_t) { throw Error("this sampler draws no noise"); }

Tensor start_noise(const Shape& shape) {
  return ImageNoise(1, {shape[1], shape[2], shape[3]}, kCpu).start(0, shape[0]);
}

TEST(Sampler, DdimLandsOnThePathOfGaussianData) {
  const DiffusionProcess process{DiffusionConfig{}};
  const GaussianData data{0.3, 0.5, 1};
  const Tensor start = start_noise({1, 1, 8, 8});
  double error_of_100 = 0;
  for (std::int64_t steps : {100, 1000}) {
    const Sampler sampler(DiffusionConfig{}, {.steps = steps});
    Tensor x = start.clone();
    ASSERT_TRUE(sampler.run(data, x, labels({0}), no_noise));
    const double a = process.at(1000 - 1000 / steps).alpha_bar;
    double error = 0;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double exact =
          0.3 + 0.5 * (start.data<float>()[i] - std::sqrt(a) * 0.3) / std::sqrt(a * 0.25 + 1 - a);
      error = std::max(error, std::abs(exact - x.data<float>()[i]));
    }
    // The error falls with the size of the steps.
    if (steps == 100) {
      error_of_100 = error;
      EXPECT_LT(error, 0.05);
    } else {
      EXPECT_LT(error, error_of_100 / 8);
    }
  }
}

// All data are m, so the predicted x_0 is m in every step.
TEST(Sampler, AnyStepsLandOnASinglePoint) {
  for (SamplerKind kind : {SamplerKind::kDdim, SamplerKind::kDdpm}) {
    const Sampler sampler(DiffusionConfig{}, {.kind = kind, .steps = 10});
    Tensor x = start_noise({3, 2, 4, 4});
    const ImageNoise noise(2, {2, 4, 4}, kCpu);
    ASSERT_TRUE(sampler.run(GaussianData{0.25, 0, 2}, x, labels({0, 1, -1}),
                            [&](std::int64_t k) { return noise.step(0, 3, k); }));
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double expected = i / 32 == 1 ? 1.25 : 0.25;
      ASSERT_NEAR(x.data<float>()[i], expected, 1e-4) << i;
    }
  }
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments_of(const Tensor& x) {
  double sum = 0, squares = 0;
  for (float v : x.values<float>()) sum += v, squares += static_cast<double>(v) * v;
  const double n = static_cast<double>(x.numel()), mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean)};
}

// Moments of the results, by the recursion of mean and variance over the steps. `log_share` is the
// share of log beta in the logarithm of the variance; the rest is that of the posterior.
Moments exact_moments(const Sampler& sampler, double m, double s, double log_share) {
  const DiffusionProcess process =
      DiffusionProcess(DiffusionConfig{})
          .respaced(spaced_steps(SamplerKind::kDdpm, 1000, sampler.steps()));
  double mean = 0, variance = 1;
  for (std::int64_t i = process.size() - 1; i >= 0; --i) {
    const auto& step = process.at(i);
    const double a = step.alpha_bar, total = a * s * s + 1 - a;
    // E[x_0 | x] = m + gain (x - sqrt(a) m)
    const double gain = std::sqrt(a) * s * s / total;
    const double slope = step.mean_of_noisy + step.mean_of_start * gain;
    const double sigma2 = i == 0 ? 0
                                 : std::exp(log_share * std::log(step.beta) +
                                            (1 - log_share) * step.posterior_log_variance);
    mean = slope * mean + step.mean_of_start * (m - gain * std::sqrt(a) * m);
    variance = slope * slope * variance + sigma2;
  }
  return {mean, std::sqrt(variance)};
}

TEST(Sampler, DdpmHasTheMomentsOfGaussianData) {
  constexpr std::int64_t kImages = 20, kPixels = 32 * 32;
  std::vector<double> errors;  // of the deviation, with the variance of the posterior
  struct Case {
    std::int64_t steps, output_channels;
    float v;
    double log_share;
  };
  for (const Case& c : {Case{25, 1, 0, 1}, Case{25, 2, -1, 0}, Case{25, 2, 0, 0.5},
                        Case{25, 2, 1, 1}, Case{250, 2, -1, 0}}) {
    const Sampler sampler(DiffusionConfig{}, {.kind = SamplerKind::kDdpm, .steps = c.steps});
    const ImageNoise noise(3, {1, 32, 32}, kCpu);
    Tensor x = noise.start(0, kImages);
    ASSERT_TRUE(sampler.run(GaussianData{0.3, 0.5, c.output_channels, c.v}, x,
                            labels(std::vector<std::int64_t>(kImages)),
                            [&](std::int64_t k) { return noise.step(0, kImages, k); }));
    const Moments got = moments_of(x), exact = exact_moments(sampler, 0.3, 0.5, c.log_share);
    // Five standard deviations of the mean and of the deviation of so many numbers.
    const double n = kImages * kPixels;
    EXPECT_NEAR(got.mean, exact.mean, 5 * exact.deviation / std::sqrt(n)) << c.steps << " " << c.v;
    EXPECT_NEAR(got.deviation, exact.deviation, 5 * exact.deviation / std::sqrt(2 * n));
    EXPECT_NEAR(exact.mean, 0.3, 1e-3);
    if (c.log_share == 0) errors.push_back(std::abs(exact.deviation - 0.5));
  }
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_LT(errors[1], errors[0] / 5);  // ten times the steps
}

// DDIM with eta 1 draws from the same distributions as DDPM with the variance of the posterior.
TEST(Sampler, DdimWithEtaOneIsDdpm) {
  const DiffusionConfig config;
  const GaussianData data{0.3, 0.5, 2, -1};  // v = -1: the variance of the posterior
  const Sampler ddim(config, {.steps = 1000, .eta = 1});
  const Sampler ddpm(config, {.kind = SamplerKind::kDdpm, .steps = 1000});
  const ImageNoise noise(4, {1, 4, 4}, kCpu);
  const auto z = [&](std::int64_t k) { return noise.step(0, 2, k); };
  Tensor a = noise.start(0, 2), b = a.clone();
  ASSERT_TRUE(ddim.run(data, a, labels({0, 0}), z));
  ASSERT_TRUE(ddpm.run(data, b, labels({0, 0}), z));
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-3) << i;
  }
}

// Guidance moves the mean m of a single point by `guidance` times the label, but in three channels
// only.
TEST(Sampler, GuidanceMovesThreeChannels) {
  const GaussianData data{0.25, 0, 8};
  const Sampler sampler(DiffusionConfig{}, {.steps = 4, .guidance = 1.5, .no_label = -1});
  Tensor x = start_noise({2, 4, 3, 3});
  std::vector<std::int64_t> rows;
  const auto counted = [&](const Tensor& images, const Tensor& t, const Tensor& label) {
    rows.push_back(images.dim(0));
    EXPECT_EQ(label.data<std::int64_t>()[0], 1);
    EXPECT_EQ(label.data<std::int64_t>()[1], 2);
    EXPECT_EQ(label.data<std::int64_t>()[2], -1);
    EXPECT_EQ(label.data<std::int64_t>()[3], -1);
    return data(images, t, label);
  };
  ASSERT_TRUE(sampler.run(counted, x, labels({1, 2}), no_noise));
  EXPECT_EQ(rows, std::vector<std::int64_t>(4, 4));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t channel = i / 9 % 4, label = i / 36 + 1;
    const double expected = 0.25 + static_cast<double>(label) * (channel < 3 ? 1.5 : 1);
    ASSERT_NEAR(x.data<float>()[i], expected, 1e-4) << i;
  }
}

TEST(Sampler, WithoutGuidanceTheModelRunsOnce) {
  const GaussianData data{0, 1, 1};
  const Sampler sampler(DiffusionConfig{}, {.steps = 4, .guidance = 1});
  Tensor x = start_noise({2, 1, 3, 3});
  std::vector<std::int64_t> seen;
  const auto counted = [&](const Tensor& images, const Tensor& t, const Tensor& label) {
    EXPECT_EQ(images.dim(0), 2);
    seen.push_back(t.data<std::int64_t>()[1]);
    return data(images, t, label);
  };
  ASSERT_TRUE(sampler.run(counted, x, labels({0, 0}), no_noise));
  EXPECT_EQ(seen, (std::vector<std::int64_t>{750, 500, 250, 0}));
}

TEST(Sampler, ClipLimitsPredictedImages) {
  Tensor x = start_noise({1, 1, 8, 8});
  const Sampler sampler(DiffusionConfig{}, {.steps = 10, .clip = true});
  ASSERT_TRUE(sampler.run(GaussianData{3, 0, 1}, x, labels({0}), no_noise));
  for (float v : x.values<float>()) EXPECT_EQ(v, 1);
}

TEST(Sampler, StopsBetweenSteps) {
  const Sampler sampler(DiffusionConfig{}, {.steps = 10});
  Tensor x = start_noise({1, 1, 4, 4});
  std::vector<std::int64_t> seen;
  EXPECT_FALSE(sampler.run(GaussianData{0, 1, 1}, x, labels({0}), no_noise, [&](std::int64_t k) {
    seen.push_back(k);
    return k < 3;
  }));
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(Sampler, RefusesBadOptions) {
  const DiffusionConfig config;
  EXPECT_THROW(Sampler(config, {.steps = 37}), ConfigError);
  EXPECT_THROW(Sampler(config, {.eta = 1.5}), ConfigError);
  EXPECT_THROW(Sampler(config, {.eta = NAN}), ConfigError);
  EXPECT_THROW(Sampler(config, {.guidance = -1}), ConfigError);
  EXPECT_THROW(Sampler(config, {.guidance = INFINITY}), ConfigError);
}

}  // namespace
}  // namespace dtn::test
