// Checks that the ranks of a run agree before they go on.
#pragma once

#include "dtn/config/train_config.h"
#include "dtn/data/sample_source.h"
#include "dtn/dist/communicator.h"

namespace dtn {

// Throws Error naming the ranks whose weights (on any device) differ from those of the first rank.
// The cause is memory or a network that loses bits, or a bug.
void check_equal_weights(const Tensor& weights, Communicator& ranks);

// Throws ConfigError naming the ranks whose config differs from that of the first rank. Ignores the
// location of the data and the number of workers.
void check_equal_config(const ExperimentConfig& config, Communicator& ranks);

// Throws DataError naming the ranks whose data set differs from that of the first rank.
void check_equal_data(const SampleSource& data, Communicator& ranks);

}  // namespace dtn
