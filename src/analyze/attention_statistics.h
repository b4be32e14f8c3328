// Where the heads of an attention look: the keys attention_... of one layer, and the rollout.
#pragma once

#include <array>
#include <vector>

#include "analyze/running_mean.h"
#include "dtn/nn/observer.h"

namespace dtn {

// Mean distance between two patches of a grid, in patches, over all ordered pairs, a patch with
// itself included: what equal attention gives.
double uniform_distance(const TokenGrid& grid);

// Attention rollout of the first images: R = M_L ... M_1, M = (mean over heads of A) / 2 + I / 2.
class Rollout {
 public:
  static constexpr std::int64_t kImages = 8;

  // The weights of a layer, a mean over heads, of one image: [T, T]. Where T grows, tokens have
  // joined ahead of the others, which are none of them yet.
  void add(std::int64_t image, const std::vector<double>& weights, std::int64_t tokens);
  // A layer that is no square of all tokens: there is no rollout then.
  void give_up() { given_up_ = true; }
  // The share of each of `patches` in the first token, or in the mean of all of them, one row per
  // image; empty without a rollout.
  std::vector<std::vector<double>> shares(std::int64_t patches, bool of_first_token) const;

 private:
  struct Product {
    std::int64_t tokens = 0;
    std::vector<double> r{};  // [T, T]
  };
  bool given_up_ = false;
  std::array<Product, kImages> products_{};
};

class AttentionStatistics {
 public:
  // The weights are made row by row. `first` is the place of the batch's first image, and
  // `class_token` whether the first token ahead of the keys is one.
  void add(const AttentionView&, std::int64_t first, bool class_token, Rollout& rollout);

  bool has_class_token() const { return has_class_token_; }
  const TokenGrid& grid() const { return grid_; }  // of the queries

  // Per head.
  std::vector<RunningMean> distance, to_class, entropy;

 private:
  bool has_class_token_ = false;
  TokenGrid grid_{0, 0};
};

}  // namespace dtn
