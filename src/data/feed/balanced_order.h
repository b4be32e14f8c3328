// Random order of samples in which all classes are equally likely.
//
// Each place of a pass draws a class at random, and then a random sample of that class. Samples are
// drawn with replacement: one may occur several times in a pass, another not at all. Classes
// without samples are never drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtn {

class BalancedOrder {
 public:
  // `labels`: the class of each sample, at least 0; empty if samples are not drawn by class.
  explicit BalancedOrder(std::span<const std::int64_t> labels);

  bool empty() const { return samples_.empty(); }

  // Writes the sample of every place of the `pass`-th pass of an epoch. The sample of a place
  // depends only on the labels, seed, epoch, pass and place. Allocates nothing.
  void draw(std::span<std::int64_t> order, std::uint64_t seed, std::int64_t epoch,
            std::int64_t pass) const;

 private:
  std::vector<std::int64_t> samples_;  // sorted by class
  std::vector<std::size_t> begins_;    // first place in samples_ of each class, and the end
};

}  // namespace dtn
