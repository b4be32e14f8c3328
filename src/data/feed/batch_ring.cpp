#include "data/feed/batch_ring.h"

#include <algorithm>
#include <utility>

namespace dtn {
namespace {

constexpr std::int64_t kMinDepth = 3;

std::int64_t depth_of(const BatchPlan& plan, int workers) {
  if (workers == 0) return 1;
  const std::int64_t busy = 2 * std::int64_t{workers} / plan.most_rows() + 1;
  return std::min(std::max(kMinDepth, busy), plan.batches());
}

}  // namespace

BatchRing::BatchRing(std::int64_t images, const std::vector<FieldSpec>& fields,
                     const LoaderOptions& options)
    : plan_(images, options),
      claim_size_(std::clamp<std::int64_t>(plan_.most_rows() / (4 * std::max(options.workers, 1)),
                                           1, kMaxClaim)) {
  const std::int64_t depth = depth_of(plan_, options.workers);
  slots_.reserve(static_cast<std::size_t>(depth));
  for (std::int64_t i = 0; i < depth; ++i) {
    slots_.emplace_back(fields, plan_.most_rows(), options.allocate);
  }
}

void BatchRing::start(std::int64_t epoch, std::int64_t first_batch) {
  plan_.start(epoch);
  epoch_ = epoch;
  next_ = fill_ = first_batch;
  fill_row_ = 0;
  end_ = plan_.batches();
}

Claim BatchRing::take_claim() {
  BatchSlot& slot = slot_of(fill_);
  if (fill_row_ == 0) slot.begin(plan_.rows_of(fill_));
  Claim taken{&slot, epoch_, fill_row_, std::min(fill_row_ + claim_size_, slot.count()), {}};
  for (std::int64_t row = taken.begin; row < taken.end; ++row) {
    taken.samples[static_cast<std::size_t>(row - taken.begin)] = plan_.at(fill_, row);
  }
  fill_row_ = taken.end;
  if (taken.end == slot.count()) {
    ++fill_;
    fill_row_ = 0;
  }
  ++claims_out_;
  return taken;
}

void BatchRing::finish(const Claim& claim, std::exception_ptr error, std::int64_t error_row) {
  claim.slot->finish(claim.end - claim.begin, std::move(error), error_row);
  --claims_out_;
}

}  // namespace dtn
