// Prefetched batches, and which worker fills which rows. One cursor runs through the rows of an
// epoch, batch after batch. Each thread that makes samples claims the next few rows at the cursor,
// so that all threads work on the batch that is needed soonest. The cursor may be ahead of the
// consumer by as many batches as there are slots.
//
// Not thread-safe: the loader holds its lock.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <vector>

#include "data/feed/batch_slot.h"
#include "data/feed/epoch_plan.h"

namespace dtn {

inline constexpr std::int64_t kMaxClaim = 16;

// Rows [begin, end) of a batch, made by one thread.
struct Claim {
  BatchSlot* slot;
  std::int64_t epoch;
  std::int64_t begin, end;
  std::array<PlannedSample, kMaxClaim> samples;  // [end - begin]
};

class BatchRing {
 public:
  // With `workers` threads besides the consumer's, there are at most max(3, 2 x workers / rows + 1)
  // slots. Without workers there is one slot.
  BatchRing(std::int64_t images, const std::vector<FieldSpec>& fields,
            const LoaderOptions& options);

  const BatchPlan& plan() const { return plan_; }

  // Stops giving out claims. start() may be called when is_idle().
  void stop() { end_ = 0; }
  bool is_idle() const { return claims_out_ == 0; }
  void start(std::int64_t epoch, std::int64_t first_batch);

  bool can_claim() const {
    return fill_ < end_ && fill_ - next_ < static_cast<std::int64_t>(slots_.size());
  }
  Claim take_claim();
  void finish(const Claim& claim, std::exception_ptr error, std::int64_t error_row);

  // The batch that the consumer gets next.
  bool is_over() const { return next_ >= end_; }
  std::int64_t next_number() const { return next_; }
  bool is_next_whole() const { return next_ < fill_ && slot_of(next_).is_whole(); }
  BatchSlot& next_slot() { return slot_of(next_); }
  const BatchSlot& next_slot() const { return slot_of(next_); }
  void advance() { ++next_; }

 private:
  std::size_t place_of(std::int64_t batch) const {
    return static_cast<std::size_t>(batch) % slots_.size();
  }
  BatchSlot& slot_of(std::int64_t batch) { return slots_[place_of(batch)]; }
  const BatchSlot& slot_of(std::int64_t batch) const { return slots_[place_of(batch)]; }

  BatchPlan plan_;
  std::int64_t claim_size_;
  std::vector<BatchSlot> slots_;
  std::int64_t epoch_ = 0;
  std::int64_t next_ = 0, end_ = 0;
  std::int64_t fill_ = 0, fill_row_ = 0;  // the cursor
  std::int64_t claims_out_ = 0;
};

}  // namespace dtn
