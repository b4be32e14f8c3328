#include "data/feed/loader.h"

#include <omp.h>

#include <chrono>
#include <limits>
#include <utility>

#include "core/seconds_since.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {

Loader::Loader(std::shared_ptr<const SampleSource> source, const LoaderOptions& options)
    : source_(std::move(source)),
      options_(checked(options, *source_)),
      maker_(*source_, options_),
      ring_(source_->size(), with_lengths(source_->host_fields()), options_) {
  // Fewer threads than requested suffice, because the contents of batches do not depend on their
  // number. No exception may leave running threads behind.
  threads_.reserve(static_cast<std::size_t>(options_.workers));
  try {
    for (int i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::exception& e) {
    log_warn(cat("the system started only ", threads_.size(), " of ", options_.workers,
                 " data workers (data.workers): ", e.what()));
  }
}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    cancelled_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::start(std::int64_t epoch, std::int64_t first_batch) {
  const std::int64_t batches = ring_.plan().batches();
  DTN_CHECK(epoch >= 0 && epoch <= std::numeric_limits<std::uint32_t>::max(), "epoch ", epoch,
            " is not in [0, 2^32)");
  DTN_CHECK(first_batch >= 0 && first_batch <= batches, "first batch ", first_batch,
            " is not in [0, ", batches, "]");
  std::unique_lock lock(mutex_);
  ring_.stop();
  cancelled_ = true;
  batch_ready_.wait(lock, [&] { return ring_.is_idle(); });
  cancelled_ = false;
  ring_.start(epoch, first_batch);
  work_ready_.notify_all();
}

void Loader::work() {
  // Nothing here runs in parallel. If it ever does, it must not take the training's cores.
  omp_set_num_threads(1);
  Workspace workspace;
  std::unique_lock lock(mutex_);
  for (;;) {
    work_ready_.wait(lock, [&] { return stopping_ || ring_.can_claim(); });
    if (stopping_) return;
    make_next(lock, workspace);
  }
}

// Claims the next rows and makes them. The lock is released meanwhile.
void Loader::make_next(std::unique_lock<std::mutex>& lock, Workspace& workspace) {
  const Claim claim = ring_.take_claim();
  lock.unlock();
  std::exception_ptr error;
  std::int64_t error_row = 0;
  make_rows(claim, workspace, error, error_row);
  lock.lock();
  ring_.finish(claim, std::move(error), error_row);
  if (claim.slot->is_whole() || ring_.is_idle()) batch_ready_.notify_one();
}

// Throws nothing: a worker must survive to report an error, or next() would wait forever.
void Loader::make_rows(const Claim& claim, Workspace& workspace, std::exception_ptr& error,
                       std::int64_t& error_row) {
  BatchSlot& slot = *claim.slot;
  for (std::int64_t row = claim.begin; row < claim.end && !cancelled_; ++row) {
    try {
      if (!workspace) workspace = source_->make_workspace();
      const PlannedSample& planned = claim.samples[static_cast<std::size_t>(row - claim.begin)];
      const MadeSample made =
          maker_.make(planned, claim.epoch, FieldRow(slot.fields(), row), *workspace);
      slot.set_row(row, made.index, made.good);
    } catch (...) {
      error = std::current_exception();
      error_row = row;
      return;
    }
  }
}

void Loader::wait_for_next(std::unique_lock<std::mutex>& lock) {
  if (ring_.is_next_whole()) return;
  const auto begin = std::chrono::steady_clock::now();
  if (threads_.empty()) {
    while (!ring_.is_next_whole()) make_next(lock, own_workspace_);
  } else {
    batch_ready_.wait(lock, [&] { return ring_.is_next_whole(); });
  }
  wait_seconds_ += seconds_since(begin);
}

bool Loader::next(Batch& batch) {
  std::unique_lock lock(mutex_);
  while (!ring_.is_over()) {
    wait_for_next(lock);
    BatchSlot& slot = ring_.next_slot();
    if (slot.error()) std::rethrow_exception(slot.error());
    // Workers do not touch the slot until the ring advances.
    lock.unlock();
    slot.hand_over(options_.allocate, batch);
    lock.lock();
    batch.number = ring_.next_number();
    ring_.advance();
    work_ready_.notify_all();
    if (batch.n > 0) return true;
  }
  batch.n = 0;
  return false;
}

bool Loader::has_ready() const {
  std::lock_guard lock(mutex_);
  // For a batch without good rows, next() would wait for the batch after it.
  return !ring_.is_over() && ring_.is_next_whole() && ring_.next_slot().has_good_rows();
}

}  // namespace dtn
