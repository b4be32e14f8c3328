// The option `sync`: a normalizer over the batch sees that of all ranks.
#pragma once

#include <memory>

#include "dtn/autograd/context.h"
#include "dtn/config/norm_config.h"
#include "ops/channel_norm.h"

namespace dtn {

// The batch that x [B, .., C] is this rank's share of, for the forward pass and its backward pass;
// null where x is all of it: without `sync`, in evaluation, and on the only rank.
std::shared_ptr<const ops::SharedBatch> shared_batch(const Context&, bool sync, const Tensor& x);

// The same of so many rows, maybe none, where every rank has another number: they are counted
// together first.
std::shared_ptr<const ops::SharedBatch> shared_rows(const Context&, bool sync, std::int64_t rows);

OptionSchema sync_option();

}  // namespace dtn
