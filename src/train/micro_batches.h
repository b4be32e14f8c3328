// Division of the rows of a batch into micro-batches, which go through the model one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/config/train_config.h"
#include "dtn/dist/communicator.h"

namespace dtn {

// Rows [begin, end) of this rank's rows.
struct MicroBatch {
  std::int64_t begin, end;
  std::int64_t all_samples;  // samples of this micro-batch on all ranks together
  // rows / mean rows per micro-batch of all ranks: the weight of the mean loss.
  double weight;
  bool last;
};

class MicroBatches {
 public:
  // Null ranks: a single process. All ranks have the same number of micro-batches, so that layers
  // over the whole batch can communicate. Throws ConfigError if that is impossible.
  MicroBatches(const TrainConfig& train, const Communicator* ranks);

  // Returns the micro-batches of a step on `rows` rows.
  std::vector<MicroBatch> of(std::int64_t rows) const;

  // Returns the smallest number of rows of a micro-batch on any rank.
  std::int64_t min_rows() const;

 private:
  std::int64_t count_for(std::int64_t rows) const;

  std::int64_t batch_size_, most_;           // rows of a batch; maximum rows of a micro-batch
  std::vector<std::int64_t> rows_of_ranks_;  // of a global batch; empty for a single process
};

}  // namespace dtn
