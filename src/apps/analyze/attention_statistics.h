// Attention of the heads: the keys attention_... of one layer, and the rollout.
#pragma once

#include <array>
#include <vector>

#include "apps/analyze/running_mean.h"
#include "dtn/nn/observer.h"

namespace dtn {

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

class AttentionStatistics {
 public:
  // Computes the weights row by row. `first` is the index of the batch's first image.
  // `class_token`: the first token in front of the keys is a class token.
  void add(const AttentionView&, std::int64_t first, bool class_token, Rollout& rollout);

  bool has_class_token() const { return has_class_token_; }
  const TokenGrid& grid() const { return grid_; }  // grid of the queries

  // Per head.
  std::vector<RunningMean> distance, to_class, entropy;

 private:
  bool has_class_token_ = false;
  TokenGrid grid_{0, 0};
};

}  // namespace dtn
