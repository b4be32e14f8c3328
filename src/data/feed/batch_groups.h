// Batches of samples of one group, such as images of one orientation, from a shuffled order.
//
// The samples of each group keep their shuffled order. A group whose last batch is not full begins
// again with its first samples, so a pass has some samples twice. Then the batches of the pass are
// shuffled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtn {

class BatchGroups {
 public:
  // `groups`: the group of each sample; empty if samples have no groups.
  BatchGroups(std::vector<std::uint8_t> groups, std::int64_t batch_size);

  bool empty() const { return groups_.empty(); }

  // Returns the number of samples of a pass, whole batches.
  std::int64_t pass_length() const { return static_cast<std::int64_t>(order_.size()); }

  // Arranges all samples, which come shuffled, for the `pass`-th pass of an epoch. The result
  // depends only on the arguments. Allocates nothing.
  void arrange(std::span<const std::int64_t> shuffled, std::uint64_t seed, std::int64_t epoch,
               std::int64_t pass);
  // The samples of the last pass that was arranged, [pass_length()].
  const std::vector<std::int64_t>& order() const { return order_; }

  // Returns pass_length() without an object.
  static std::int64_t pass_length_of(std::span<const std::uint8_t> groups, std::int64_t batch_size);

 private:
  std::vector<std::uint8_t> groups_;
  std::size_t batch_size_;
  std::vector<std::int64_t> order_;
};

}  // namespace dtn
