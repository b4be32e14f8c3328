#include "tasks/ensemble.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/data/dataset_registry.h"
#include "tensors.h"
#include "texts.h"

namespace dtn::test {
namespace {

TEST(LogMeanProbabilities, IsTheLogarithmOfTheMean) {
  const Tensor a = Tensor::from(std::vector<float>{1, 2, 3, -1000, 0, 1000}, {2, 3});
  const Tensor b = Tensor::from(std::vector<float>{0, 0, 0, 1000, 1000, 0}, {2, 3});
  const auto got = doubles(log_mean_probabilities({a, b}));
  const double total = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  for (int k = 0; k < 3; ++k) {
    const double want = std::log((std::exp(k + 1.0) / total + 1.0 / 3) / 2);
    EXPECT_NEAR(got[static_cast<std::size_t>(k)], want, 1e-6) << k;
  }
  // One is sure of class 2, the other as sure of 0 as of 1.
  EXPECT_NEAR(got[3], std::log(0.25), 1e-6);
  EXPECT_NEAR(got[4], std::log(0.25), 1e-6);
  EXPECT_NEAR(got[5], std::log(0.5), 1e-6);
}

// One model gives its own probabilities.
TEST(LogMeanProbabilities, OfOneModelIsItsLogSoftmax) {
  const Tensor a = Tensor::from(std::vector<float>{1, 2, 4}, {1, 3});
  const auto got = doubles(log_mean_probabilities({a}));
  const double total = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(4.0));
  EXPECT_NEAR(got[0], 1 - total, 1e-6);
  EXPECT_NEAR(got[2], 4 - total, 1e-6);
}

// exp(-3000) is 0 in float64, but the loss of a model that is so wrong is a number.
TEST(LogMeanProbabilities, StaysFinite) {
  const Tensor a = Tensor::from(std::vector<float>{0, 3000}, {1, 2});
  const Tensor b = Tensor::from(std::vector<float>{0, 2000}, {1, 2});
  EXPECT_NEAR(doubles(log_mean_probabilities({a, b}))[0], -2000 - std::log(2.0), 1e-3);
}

TEST(LogMeanProbabilities, KeepsNotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = Tensor::from(std::vector<float>{1, nan, 2}, {1, 3});
  const Tensor b = Tensor::from(std::vector<float>{1, 1, 1}, {1, 3});
  for (double value : doubles(log_mean_probabilities({b, a}))) EXPECT_TRUE(std::isnan(value));
}

TEST(WarnOfOtherSplit, NeedsEqualSharesAndSeeds) {
  const auto warning = [](double share, std::uint64_t seed) {
    ExperimentConfig first, other;
    first.data.split = 0.2;
    first.seed = 1;
    other.data.split = share;
    other.seed = seed;
    testing::internal::CaptureStderr();
    warn_of_other_split(first, other, "b");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warning(0.2, 1), "");
  expect_contains(warning(0.2, 2), "b: trained with data.split 0.2 with seed 2, and the first");
  expect_contains(warning(0.1, 1), "it has learned from images that are evaluated here");
  ExperimentConfig whole;
  testing::internal::CaptureStderr();
  warn_of_other_split(whole, whole, "b");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CheckJoinsEnsemble, NamesTheDifference) {
  ExperimentConfig first;
  first.model.num_classes = 10;
  first.model.image_size = 32;
  ExperimentConfig other = first;
  other.model.depth = 3;
  EXPECT_NO_THROW(check_joins_ensemble(first, other, "b", dataset_registry()));
  other.model.image_size = 48;
  try {
    check_joins_ensemble(first, other, "b", dataset_registry());
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("b: "), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("model.image_size is 48"), std::string::npos) << e.what();
  }
  // Without data.mean and data.std, the data set gives the usual values.
  other = first;
  first.data.dataset = "imagefolder";
  other.data.dataset = "cifar10";
  EXPECT_THROW(check_joins_ensemble(first, other, "b", dataset_registry()), ConfigError);
  other.data.mean = first.data.mean = {0.5};
  other.data.std = first.data.std = {0.25};
  EXPECT_NO_THROW(check_joins_ensemble(first, other, "b", dataset_registry()));
  other = first;
  other.task = "diffusion";
  EXPECT_THROW(check_joins_ensemble(first, other, "b", dataset_registry()), ConfigError);
}

}  // namespace
}  // namespace dtn::test
