#include "kernels/image/sampler_step.h"

#include <gtest/gtest.h>

#include "core/normal_noise.h"
#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(SamplerStep)
DTN_RUN_ON_EACH_ISA(NormalNoise)

namespace dtn::test {
namespace {

struct Case {
  std::int64_t batch, channels, pixels;
  bool doubled, guided, clip, noise, learned;
};

// The arguments of a step with arbitrary coefficients.
struct Problem {
  explicit Problem(const Case& c)
      : x(normal_values<float>(c.batch * c.channels * c.pixels, 1)),
        z(normal_values<float>(c.batch * c.channels * c.pixels, 2)),
        output(normal_values<float>(c.batch * c.channels * (c.doubled ? 2 : 1) * c.pixels, 3)),
        unlabelled(normal_values<float>(std::ssize(output), 4)),
        args{.batch = c.batch,
             .channels = c.channels,
             .pixels = c.pixels,
             .output_channels = c.channels * (c.doubled ? 2 : 1),
             .output = output.data(),
             .unlabelled = c.guided ? unlabelled.data() : nullptr,
             .guided = std::min<std::int64_t>(3, c.channels),
             .guidance = 1.5f,
             .from_noisy = 1.25f,
             .from_noise = 0.75f,
             .clip = c.clip,
             .of_start = 0.375f,
             .of_noisy = 0.625f,
             .z = c.noise ? z.data() : nullptr,
             .sigma = 0.3f,
             .learned = c.learned,
             .log_sigma_low = -2.5f,
             .log_sigma_high = -1.25f,
             .x = x.data()} {}

  // The step in float64, by the equations of sampler_step.h.
  std::vector<double> expected() const {
    std::vector<double> next(x.size());
    for (std::int64_t i = 0; i < std::ssize(x); ++i) {
      const std::int64_t plane = i / args.pixels, b = plane / args.channels;
      const std::int64_t c = plane % args.channels;
      const auto at =
          static_cast<std::size_t>((b * args.output_channels + c) * args.pixels + i % args.pixels);
      const auto k = static_cast<std::size_t>(i);
      double e = output[at];
      if (args.unlabelled && c < args.guided) {
        e = static_cast<double>(unlabelled[at]) + args.guidance * (e - unlabelled[at]);
      }
      double start = static_cast<double>(args.from_noisy) * x[k] - args.from_noise * e;
      if (args.clip) start = std::clamp(start, -1.0, 1.0);
      next[k] = args.of_start * start + static_cast<double>(args.of_noisy) * x[k];
      if (!args.z) continue;
      double sigma = args.sigma;
      if (args.learned) {
        const double v = output[at + static_cast<std::size_t>(args.channels * args.pixels)];
        sigma =
            std::exp(args.log_sigma_low + (v + 1) / 2 * (args.log_sigma_high - args.log_sigma_low));
      }
      next[k] += sigma * z[k];
    }
    return next;
  }

  std::vector<float> x, z, output, unlabelled;
  SamplerStep args;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (bool guided : {false, true}) {
    for (bool clip : {false, true}) {
      all.push_back({2, 1, 37, false, guided, clip, false, false});
      all.push_back({3, 4, 1024, true, guided, clip, true, true});
      all.push_back({1, 4, 20011, true, guided, clip, true, false});
      all.push_back({2, 3, 49, false, guided, clip, true, false});
    }
  }
  return all;
}

TEST(SamplerStep, FollowsItsEquations) {
  for (Isa isa : isas()) {
    for (const Case& c : cases()) {
      Problem problem(c);
      const std::vector<double> expected = problem.expected();
      run_on(isa, problem.args);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        // Ten roundings of numbers below 8.
        ASSERT_NEAR(problem.x[i], expected[i], 10 * 8 * 0x1p-24) << name_of(isa) << " " << i;
      }
    }
  }
}

TEST(SamplerStep, BitsDoNotDependOnThreadsOrInstructions) {
  for (const Case& c : cases()) {
    std::vector<float> first;
    for (Isa isa : isas()) {
      for (int threads : {1, 3}) {
        Threads scope(threads);
        Problem problem(c);
        run_on(isa, problem.args);
        if (first.empty()) first = problem.x;
        if (c.learned) {  // exp rounds otherwise without fused multiply-adds
          for (std::size_t i = 0; i < first.size(); ++i) ASSERT_NEAR(problem.x[i], first[i], 1e-6);
        } else {
          EXPECT_TRUE(same_bits(problem.x, first)) << name_of(isa) << ", threads " << threads;
        }
      }
    }
  }
}

TEST(SamplerStep, KeepsNaN) {
  for (Isa isa : isas()) {
    Problem problem({1, 1, 20, false, false, true, false, false});
    problem.output[7] = NAN;
    run_on(isa, problem.args);
    for (std::size_t i = 0; i < problem.x.size(); ++i) {
      EXPECT_EQ(std::isnan(problem.x[i]), i == 7) << name_of(isa) << " " << i;
    }
  }
}

TEST(NormalNoise, IsTheSequenceOfEachSeed) {
  const std::vector<std::int64_t> seeds = {5, -1, std::int64_t{1} << 40};
  for (Isa isa : isas()) {
    for (std::int64_t values : {1, 7, 8, 784, 40003}) {
      for (int threads : {1, 3}) {
        Threads scope(threads);
        std::vector<float> noise(static_cast<std::size_t>(3 * values) + 1, 9);
        run_on(isa, NormalNoise{3, values, seeds.data(), normal_table(), noise.data()});
        EXPECT_EQ(noise.back(), 9) << "wrote past the end";
        for (std::size_t b = 0; b < 3; ++b) {
          std::vector<float> expected(static_cast<std::size_t>(values));
          write_noise(static_cast<std::uint64_t>(seeds[b]), 0, values, expected.data());
          const auto from = noise.begin() + static_cast<std::ptrdiff_t>(b) * values;
          EXPECT_TRUE(same_bits(std::vector<float>(from, from + values), expected));
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
