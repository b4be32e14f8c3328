// Statistics of a normalizer's input and output: the keys token_magnitude, variation_coefficient,
// pca and token_cosine of one site.
#pragma once

#include <optional>
#include <vector>

#include "apps/analyze/median.h"
#include "apps/analyze/moments.h"
#include "apps/analyze/running_mean.h"
#include "dtn/nn/normalizer.h"

namespace dtn {

// Returns the grid's tokens of x [B, T, C], without the prefix tokens, as float64 [B, h w, C].
Tensor patches_of(const Tensor& x, const TokenGrid& grid);

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

}  // namespace dtn
