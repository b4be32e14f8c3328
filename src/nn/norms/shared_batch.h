// The option `sync`: a normalizer over the batch uses the batch of all ranks.
#pragma once

#include <memory>

#include "dtn/autograd/context.h"
#include "dtn/config/norm_config.h"
#include "ops/norm/channel_norm.h"

namespace dtn {

// Returns the batch of all ranks, of which x [B, .., C] is this rank's share, for the forward and
// the backward pass. Null if x is the whole batch: without `sync`, in evaluation, and on a single
// rank.
std::shared_ptr<const ops::SharedBatch> shared_batch(const Context&, bool sync, const Tensor& x);

// The same for `rows` rows, if the number of rows differs between ranks and may be 0. Adds up the
// numbers of all ranks first.
std::shared_ptr<const ops::SharedBatch> shared_rows(const Context&, bool sync, std::int64_t rows);

OptionSchema sync_option();

}  // namespace dtn
