// Some samples with their nearest references, to look at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtn/core/metrics.h"
#include "tasks/frozen/nearest_neighbors.h"

namespace dtn {

// Origin of rows of features: positions in the data set, and labels. No labels: unknown.
struct FeatureRows {
  std::span<const std::int64_t> indices, labels;
};

// Returns up to 12 of the rows, evenly over their labels.
std::vector<std::int64_t> example_rows(const FeatureRows& queries);

// Returns an example for each of `rows`, with up to five neighbours, sorted by label. `found` is
// the result for the rows of `queries` among those of `bank`.
std::vector<NeighborExample> neighbor_examples(const Neighbors& found,
                                               std::span<const std::int64_t> rows,
                                               const FeatureRows& queries, const FeatureRows& bank);

}  // namespace dtn
