#include "data/feed/loader.h"

#include <omp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "core/seconds_since.h"
#include "data/feed/batch_ring.h"
#include "data/feed/sample_maker.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {

struct Loader::State {
  State(std::shared_ptr<const SampleSource> s, const LoaderOptions& o);
  ~State();

  void start_threads();
  void start(std::int64_t epoch, std::int64_t first_batch);
  bool next(Batch& batch);
  bool has_ready();

  using Workspace = std::unique_ptr<SampleSource::Workspace>;
  void work();
  void make_next(std::unique_lock<std::mutex>& lock, Workspace& workspace);
  void make_rows(const Claim& claim, Workspace& workspace, std::exception_ptr& error,
                 std::int64_t& error_row);
  void wait_for_next(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<const SampleSource> source;
  const LoaderOptions options;
  SampleMaker maker;
  double wait_seconds = 0;
  Workspace own_workspace;  // for the consumer, if there are no workers

  std::mutex mutex;
  std::condition_variable work_ready, batch_ready;
  BatchRing ring;
  bool stopping = false;
  std::atomic<bool> cancelled = false;  // running claims must stop
  std::vector<std::thread> threads;     // last member: made last, destroyed first
};

Loader::State::State(std::shared_ptr<const SampleSource> s, const LoaderOptions& o)
    : source(std::move(s)),
      options(checked(o, *source)),
      maker(*source, options),
      ring(source->size(), with_lengths(source->host_fields()), options) {}

// Called only when all members are complete, so that a failure leaves no thread behind. Fewer
// threads than requested suffice, because the contents of batches do not depend on their number.
void Loader::State::start_threads() {
  threads.reserve(static_cast<std::size_t>(options.workers));
  try {
    for (int i = 0; i < options.workers; ++i) threads.emplace_back([this] { work(); });
  } catch (const std::system_error& e) {
    log_warn(cat("the system started only ", threads.size(), " of ", options.workers,
                 " data workers (data.workers): ", e.what()));
  }
}

Loader::State::~State() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
    cancelled = true;
  }
  work_ready.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void Loader::State::start(std::int64_t epoch, std::int64_t first_batch) {
  const std::int64_t batches = ring.plan().batches();
  DTN_CHECK(epoch >= 0 && epoch <= std::numeric_limits<std::uint32_t>::max(), "epoch ", epoch,
            " is not in [0, 2^32)");
  DTN_CHECK(first_batch >= 0 && first_batch <= batches, "first batch ", first_batch,
            " is not in [0, ", batches, "]");
  std::unique_lock lock(mutex);
  ring.stop();
  cancelled = true;
  batch_ready.wait(lock, [&] { return ring.is_idle(); });
  cancelled = false;
  ring.start(epoch, first_batch);
  work_ready.notify_all();
}

void Loader::State::work() {
  // Nothing here runs in parallel. If it ever does, it must not take the training's cores.
  omp_set_num_threads(1);
  Workspace workspace;
  std::unique_lock lock(mutex);
  for (;;) {
    work_ready.wait(lock, [&] { return stopping || ring.can_claim(); });
    if (stopping) return;
    make_next(lock, workspace);
  }
}

// Claims the next rows and makes them. The lock is released meanwhile.
void Loader::State::make_next(std::unique_lock<std::mutex>& lock, Workspace& workspace) {
  const Claim claim = ring.take_claim();
  lock.unlock();
  std::exception_ptr error;
  std::int64_t error_row = 0;
  make_rows(claim, workspace, error, error_row);
  lock.lock();
  ring.finish(claim, std::move(error), error_row);
  if (claim.slot->is_whole() || ring.is_idle()) batch_ready.notify_one();
}

// Throws nothing: a worker must survive to report an error, or next() would wait forever.
void Loader::State::make_rows(const Claim& claim, Workspace& workspace, std::exception_ptr& error,
                              std::int64_t& error_row) {
  BatchSlot& slot = *claim.slot;
  for (std::int64_t row = claim.begin; row < claim.end && !cancelled; ++row) {
    try {
      if (!workspace) workspace = source->make_workspace();
      const PlannedSample& planned = claim.samples[static_cast<std::size_t>(row - claim.begin)];
      const MadeSample made =
          maker.make(planned, claim.epoch, FieldRow(slot.fields(), row), *workspace);
      slot.set_row(row, made.index, made.good);
    } catch (...) {
      error = std::current_exception();
      error_row = row;
      return;
    }
  }
}

void Loader::State::wait_for_next(std::unique_lock<std::mutex>& lock) {
  if (ring.is_next_whole()) return;
  const auto begin = std::chrono::steady_clock::now();
  if (threads.empty()) {
    while (!ring.is_next_whole()) make_next(lock, own_workspace);
  } else {
    batch_ready.wait(lock, [&] { return ring.is_next_whole(); });
  }
  wait_seconds += seconds_since(begin);
}

bool Loader::State::next(Batch& batch) {
  std::unique_lock lock(mutex);
  while (!ring.is_over()) {
    wait_for_next(lock);
    BatchSlot& slot = ring.next_slot();
    if (slot.error()) std::rethrow_exception(slot.error());
    // Workers do not touch the slot until the ring advances.
    lock.unlock();
    slot.hand_over(options.allocate, batch);
    lock.lock();
    batch.number = ring.next_number();
    ring.advance();
    work_ready.notify_all();
    if (batch.n > 0) return true;
  }
  batch.n = 0;
  return false;
}

bool Loader::State::has_ready() {
  std::lock_guard lock(mutex);
  // For a batch without good rows, next() would wait for the batch after it.
  return !ring.is_over() && ring.is_next_whole() && ring.next_slot().has_good_rows();
}

Loader::Loader(std::shared_ptr<const SampleSource> source, const LoaderOptions& options)
    : state_(std::make_unique<State>(std::move(source), options)) {
  state_->start_threads();
}

Loader::~Loader() = default;

const SampleSource& Loader::source() const { return *state_->source; }
const LoaderOptions& Loader::options() const { return state_->options; }
std::int64_t Loader::batches_per_epoch() const { return state_->ring.plan().batches(); }
std::int64_t Loader::samples_per_epoch() const { return state_->ring.plan().samples(); }
std::int64_t Loader::batch_size() const { return state_->ring.plan().most_rows(); }

void Loader::start(std::int64_t epoch, std::int64_t first_batch) {
  state_->start(epoch, first_batch);
}

bool Loader::next(Batch& batch) { return state_->next(batch); }
bool Loader::has_ready() const { return state_->has_ready(); }

LoaderReport Loader::report() const {
  const BadImages& damaged = state_->maker.damaged();
  return {damaged.count(), damaged.names(), state_->wait_seconds};
}

}  // namespace dtn
