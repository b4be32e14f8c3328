// Statistics of one normalizer or attention of a model, over all images.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "apps/analyze/moments.h"
#include "dtn/nn/normalizer.h"
#include "dtn/nn/observer.h"

namespace dtn {

// Mean and standard deviation of numbers that come one by one (Welford).
class RunningMean {
 public:
  void add(double value) {
    count_ += 1;
    const double away = value - mean_;
    mean_ += away / count_;
    squares_ += away * (value - mean_);
  }
  // NaN if there are no numbers.
  double mean() const { return count_ > 0 ? mean_ : std::numeric_limits<double>::quiet_NaN(); }
  // Standard deviation of the population.
  double std() const { return std::sqrt(squares_ / count_); }

 private:
  double count_ = 0, mean_ = 0, squares_ = 0;
};

// Median of numbers that come in two equal passes, in constant memory.
//
// Numbers are not negative. Each is rounded to float32, whose bits have the order of the numbers.
// The first pass counts the upper 16 bits, and the second pass the lower 16 bits of the middle
// numbers. The median is exact except for that rounding. Infinity is larger than all numbers; if
// there is a NaN, the median is NaN.
class MedianInTwoPasses {
 public:
  MedianInTwoPasses();

  // Adds a number to the present pass.
  void add(double value);
  void begin_second_pass();
  // Call after both passes. Returns the mean of the middle two of an even count; NaN if there are
  // no numbers.
  double median() const;

 private:
  // One of the two middle numbers.
  struct Middle {
    std::uint32_t upper = 0;  // upper 16 bits
    std::uint64_t rank = 0;   // among the numbers with these bits
    std::vector<std::uint64_t> lower{};
    float value() const;
  };
  Middle find(std::uint64_t rank) const;

  bool second_ = false, nan_ = false;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> upper_;
  std::vector<Middle> middles_;  // one if both middle numbers have the same upper bits
};

// Returns the grid's tokens of x [B, T, C], without the prefix tokens, as float64 [B, h w, C].
Tensor patches_of(const Tensor& x, const TokenGrid& grid);

// A normalizer's input and output: the keys token_magnitude, variation_coefficient, pca and
// token_cosine of one site.
class SiteStatistics {
 public:
  // With `keeps_points`, the first tokens are kept, to be shown as points.
  SiteStatistics(std::int64_t heads, bool keeps_points)
      : heads_(heads), keeps_points_(keeps_points) {}

  // Adds a batch of the first pass over the images. The normalizer computed y from x, both [B, T,
  // C].
  void add(const Normalizer&, const Tensor& x, const Tensor& y, const TokenGrid& grid);
  // Adds a batch of the second pass, which the median needs.
  void add_again(const Normalizer&, const Tensor& x, const TokenGrid& grid);
  void begin_second_pass();

  std::int64_t heads() const { return heads_; }
  const TokenGrid& grid() const { return grid_; }
  const Normalizer* norm() const { return norm_; }

  // Euclidean norms of the tokens after the normalizer: per head, and last over all channels.
  std::vector<RunningMean> magnitude_mean, magnitude_std;
  std::vector<double> magnitude_map;  // [H, h w], first image
  // Per head; empty if the normalizer subtracts nothing.
  std::vector<RunningMean> variation;
  std::vector<MedianInTwoPasses> median;
  // Before and after the normalizer.
  RunningMean cosine[2];
  Covariance directions[2], raw[2];
  // Directions of the first tokens, [n, C].
  static constexpr std::int64_t kPoints = 2048;
  std::vector<double> points[2];
  std::int64_t point_count = 0;

 private:
  void add_magnitudes(const Tensor& y);
  void add_variation(const Normalizer&, const Tensor& x, const TokenGrid& grid);
  void add_directions(const Tensor& tokens, int after);

  std::int64_t heads_;
  bool keeps_points_;
  TokenGrid grid_{0, 0};
  const Normalizer* norm_ = nullptr;
};

// Mean distance between two patches of a grid, in patches, over all ordered pairs, including pairs
// of a patch with itself. Uniform attention has this distance.
double uniform_distance(const TokenGrid& grid);

// Attention rollout of the first images:
//    R = M_L ... M_1,  M = (mean over heads of A) / 2 + I / 2.
class Rollout {
 public:
  static constexpr std::int64_t kImages = 8;

  // Adds the weights of a layer for one image, averaged over heads: [T, T]. If T has grown, the new
  // tokens are in front of the old ones and have no share of the old ones yet.
  void add(std::int64_t image, const std::vector<double>& weights, std::int64_t tokens);
  // Called for a layer whose attention is not a square matrix over all tokens. Then there is no
  // rollout.
  void give_up() { given_up_ = true; }
  // Returns the share of each of `patches` in the first token, or in the mean of all patch tokens.
  // One row per image; empty without a rollout.
  std::vector<std::vector<double>> shares(std::int64_t patches, bool of_first_token) const;

 private:
  struct Product {
    std::int64_t tokens = 0;
    std::vector<double> r{};  // [T, T]
  };
  bool given_up_ = false;
  std::array<Product, kImages> products_{};
};

// Attention of the heads: the keys attention_... of one layer.
class AttentionStatistics {
 public:
  // Computes the weights row by row. `first` is the index of the batch's first image.
  // `class_token`: the first token in front of the keys is a class token.
  void add(const AttentionView&, std::int64_t first, bool class_token, Rollout& rollout);

  bool has_class_token() const { return has_class_token_; }
  const TokenGrid& grid() const { return grid_; }  // grid of the queries
  // Entropy in nats if a query attended equally to all keys that it sees.
  double uniform_entropy() const { return uniform_entropy_; }

  // Per head.
  std::vector<RunningMean> distance, to_class, entropy;

 private:
  bool has_class_token_ = false;
  double uniform_entropy_ = 0;
  TokenGrid grid_{0, 0};
};

}  // namespace dtn
