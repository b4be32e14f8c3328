// What the ranks of a run must have in common before they go on, and how they get it.
#pragma once

#include <optional>

#include "dtn/data/sample_source.h"
#include "dtn/dist/communicator.h"
#include "train/learner.h"
#include "train/snapshot.h"

namespace dtn {

// Gives every rank the first one's weights, average, moments and progress, and makes sure that the
// weights have arrived.
void share_run(Learner& learner, RunProgress& progress, std::optional<std::int64_t>& resumed_at,
               Communicator& ranks);

// Throws Error naming the ranks whose weights (on any device) are not those of the first: memory or
// a network that loses bits, or a bug.
void check_equal_weights(const Tensor& weights, Communicator& ranks);

// Throws ConfigError naming the ranks whose config is not that of the first, but for where the data
// lies.
void check_equal_config(const ExperimentConfig& config, Communicator& ranks);

// Throws DataError naming the ranks whose data set is another than that of the first.
void check_equal_data(const SampleSource& data, Communicator& ranks);

}  // namespace dtn
