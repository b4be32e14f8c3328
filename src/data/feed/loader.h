// Batches of the samples of a source, prefetched by worker threads.
//
// The contents of a batch depend only on the source, the seed, the epoch and the position in the
// epoch. They do not depend on the number of workers or on their timing. To resume, call start()
// with the epoch and batch where the run stopped.
//
// Several processes (ranks) share every batch: a loader gives its rank's rows of the *global*
// batches. These hold the same samples for any number of ranks, so a run may continue with another
// number of ranks at any batch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "data/feed/batch_ring.h"
#include "data/feed/sample_maker.h"

namespace dtn {

struct LoaderReport {
  std::int64_t bad_images = 0;         // damaged samples met so far, each counted once
  std::vector<std::string> bad_names;  // names of the first hundred, in the order they were met
  double wait_seconds = 0;             // time that next() waited for samples
};

// Used by one thread. At most max(3, 2 x workers / batch_size() + 1) batches are ready or being
// made. Once they exist, nothing is allocated as long as the caller passes the same Batch.
class Loader {
 public:
  // Throws as checked() does. If the system refuses threads, the loader uses those it got.
  Loader(std::shared_ptr<const SampleSource> source, const LoaderOptions& options);
  // Stops the workers, each at the latest after its current sample.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const SampleSource& source() const { return *source_; }
  const LoaderOptions& options() const { return options_; }

  // Global batches, the same for all ranks. In an evaluation, a rank may have no row of the last.
  std::int64_t batches_per_epoch() const { return ring_.plan().batches(); }
  // Samples of this rank. An upper bound in an evaluation, which leaves damaged samples out.
  std::int64_t samples_per_epoch() const { return ring_.plan().samples(); }
  // Number of rows of this rank in a full batch, at least 1. No batch has more rows.
  std::int64_t batch_size() const { return ring_.plan().most_rows(); }

  // Starts an epoch at `first_batch` and abandons running work.
  void start(std::int64_t epoch, std::int64_t first_batch = 0);

  // Gets the next batch into `batch`, whose tensors are reused if nothing else holds them. Returns
  // false at the end of the epoch. An exception of a worker is thrown here, in place of the batch
  // it belongs to, until start() is called.
  bool next(Batch& batch);

  // Returns true if next() would give a batch without waiting. Always false without workers.
  bool has_ready() const;

  LoaderReport report() const { return {maker_.damaged(), maker_.damaged_names(), wait_seconds_}; }

 private:
  using Workspace = std::unique_ptr<SampleSource::Workspace>;
  void work();
  void make_next(std::unique_lock<std::mutex>& lock, Workspace& workspace);
  void make_rows(const Claim& claim, Workspace& workspace, std::exception_ptr& error,
                 std::int64_t& error_row);
  void wait_for_next(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<const SampleSource> source_;
  const LoaderOptions options_;
  SampleMaker maker_;
  double wait_seconds_ = 0;
  Workspace own_workspace_;  // for the consumer, if there are no workers

  mutable std::mutex mutex_;
  std::condition_variable work_ready_, batch_ready_;
  BatchRing ring_;
  bool stopping_ = false;
  std::atomic<bool> cancelled_ = false;  // running claims must stop
  std::vector<std::thread> threads_;     // last member: made last, destroyed first
};

}  // namespace dtn
