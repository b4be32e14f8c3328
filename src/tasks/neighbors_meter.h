// Meter of features: classifies each sample by its nearest neighbors among the references.
#pragma once

#include <optional>
#include <vector>

#include "dtn/core/fields.h"
#include "dtn/core/metrics.h"
#include "tasks/frozen/nearest_neighbors.h"

namespace dtn {

// `top1` and `top5` in percent. Reads "features" [n, F] float32 from the outputs, and "label" and
// "index" [n] int64 from the batch.
class NeighborsMeter final : public Meter {
 public:
  explicit NeighborsMeter(const NeighborOptions& options = {}) : options_(options) {}

  void add_reference(const Fields& batch, const Fields& outputs) override;
  void add(const Fields& batch, const Fields& outputs) override;
  void merge(Communicator& ranks) override;
  Metrics result() const override;

 private:
  // Features with their labels and their positions in the data set.
  struct Rows {
    std::vector<float> features;
    std::vector<std::int64_t> labels, indices;

    void add(const Fields& batch, const Fields& outputs);
    std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
    Tensor feature_tensor() const;
  };
  NeighborHits count_hits() const;
  static Rows gathered(const Rows& own, Communicator& ranks);

  NeighborOptions options_;
  Rows bank_, queries_;
  std::optional<NeighborHits> merged_;  // of all ranks
};

}  // namespace dtn
