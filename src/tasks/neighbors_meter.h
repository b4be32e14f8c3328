// Meter of features: classifies each sample by its nearest neighbors among the references.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dtn/core/fields.h"
#include "dtn/core/metrics.h"
#include "tasks/frozen/nearest_neighbors.h"

namespace dtn {

// `top1` and `top5` in percent; NaN if features of any rank are not comparable, as those of a
// diverged model. Reads "features" [n, F] float32 from the outputs, and "label" and "index" [n]
// int64 from the batch.
class NeighborsMeter final : public Meter {
 public:
  // Features that are gathered from all ranks at once, in bytes.
  static constexpr std::int64_t kGatheredBytes = 64 << 20;

  explicit NeighborsMeter(const NeighborOptions& options = {},
                          std::int64_t gathered_bytes = kGatheredBytes)
      : options_(options), gathered_bytes_(gathered_bytes) {}

  void add_reference(const Fields& batch, const Fields& outputs) override;
  void add(const Fields& batch, const Fields& outputs) override;
  void merge(Communicator& ranks) override;
  Metrics result() const override;
  // Examples among the samples of all ranks. Empty before merge(), or if there is no accuracy.
  std::vector<NeighborExample> examples() const override { return examples_; }

 private:
  // Features with their labels and their positions in the data set.
  struct Rows {
    std::vector<Tensor> features;  // [n, F] of each batch
    std::vector<std::int64_t> labels, indices;

    void add(const Fields& batch, const Fields& outputs);
    std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
  };
  struct Bank {
    Tensor features, labels, indices;  // [N, F], [N], [N]
  };
  bool is_comparable() const;
  Bank gather_bank(Communicator& ranks);
  NeighborHits count_hits(const NearestNeighbors& neighbors);
  void find_examples(const NearestNeighbors& neighbors, const Bank& bank, Communicator& ranks);

  NeighborOptions options_;
  std::int64_t gathered_bytes_;
  Rows references_, queries_;
  std::optional<Metrics> merged_;  // of all ranks
  std::vector<NeighborExample> examples_;
};

}  // namespace dtn
