// How the rows of a batch are cut into what goes through the model at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/config/train_config.h"
#include "dtn/dist/communicator.h"

namespace dtn {

// Rows [begin, end) of those of this rank.
struct MicroBatch {
  std::int64_t begin, end;
  std::int64_t all_samples;  // of all ranks' micro-batches of this number
  // Rows to those that the micro-batches of all ranks have on average: how much its mean counts.
  double weight;
  bool last;
};

class MicroBatches {
 public:
  // With null, of the only rank. Throws ConfigError when the ranks cannot share a batch out: they
  // have the same number of micro-batches, so that layers that look at the whole batch can meet.
  MicroBatches(const TrainConfig& train, const Communicator* ranks);

  // Of a step on that many rows.
  std::vector<MicroBatch> of(std::int64_t rows) const;

  // Fewest rows of a micro-batch on any rank.
  std::int64_t min_rows() const;

 private:
  std::int64_t count_for(std::int64_t rows) const;

  std::int64_t batch_size_, most_;           // rows; most_ of them at a time
  std::vector<std::int64_t> rows_of_ranks_;  // of a global batch; empty for the only rank
};

}  // namespace dtn
