// Evaluation of the features of a frozen model: the options of `dtn-eval --task`, and the keys of
// `features.evaluations` in a sweep. docs/frozen-features.md explains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dtn {

struct FeatureEvaluation {
  std::string task;  // "knn" or "linear"
  // For knn:
  std::int64_t k = 20;        // nearest training images that vote
  double temperature = 0.07;  // a neighbour's vote is exp(similarity / temperature)
  // For linear:
  std::optional<int> blocks{};  // last blocks whose features are combined; unset: see block_count()
  bool avgpool = false;         // class token and patch mean of the last block
  int epochs = 100;
  double lr = 0.001;          // for a batch of 256
  std::int64_t batch = 1024;  // images per step
  bool augment = true;        // random crops and flips of the training images

  bool is_knn() const { return task == "knn"; }
  int block_count() const { return blocks.value_or(avgpool ? 1 : 4); }
  bool operator==(const FeatureEvaluation&) const = default;
};

}  // namespace dtn
