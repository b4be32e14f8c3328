// Batches of the samples of a source, loaded ahead by worker threads.
//
// What a batch holds depends on the source, the seed, the epoch and the position in it, never on
// the number of workers or on when they run. To resume, start() at the epoch and batch where the
// run stopped.
//
// Several processes (ranks) share every batch: a loader gives its rank's rows of the *global*
// batches, which hold the same samples whatever the number of ranks. So a run may go on with
// another number of ranks at any batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/feed/batch.h"
#include "data/feed/epoch_plan.h"
#include "data/feed/loader_options.h"
#include "dtn/data/sample_source.h"

namespace dtn {

struct LoaderReport {
  std::int64_t bad_images = 0;         // damaged samples met so far, each counted once
  std::vector<std::string> bad_names;  // of the first hundred, in the order they were met
  double wait_seconds = 0;             // that next() spent waiting for samples
};

// Driven by one thread. At most max(3, 2 x workers / batch_size() + 1) batches are held ready or in
// the making; once they exist, nothing is allocated as long as the caller hands the same Batch in.
class Loader {
 public:
  // Throws what checked() does. Should the system refuse threads, the loader makes do with those it
  // got.
  Loader(std::shared_ptr<const SampleSource> source, const LoaderOptions& options);
  // Stops the workers, at the latest after the sample each is at.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const SampleSource& source() const;
  const LoaderOptions& options() const;

  // Global batches, the same for all ranks. In an evaluation a rank may have no row of the last.
  std::int64_t batches_per_epoch() const;
  // Of this rank. Upper bound for an evaluation: damaged samples are left out.
  std::int64_t samples_per_epoch() const;
  // This rank's rows of a full batch, at least 1; no batch has more.
  std::int64_t batch_size() const;

  // Begins an epoch at `first_batch`, abandoning whatever is under way.
  void start(std::int64_t epoch, std::int64_t first_batch = 0);

  // The next batch, into `batch`, whose tensors are reused when nobody else holds them. False at
  // the end of the epoch. Whatever a worker threw is thrown here, in place of the batch it belongs
  // to, until start() is called.
  bool next(Batch& batch);

  // Whether next() would give a batch without waiting. Never true without workers.
  bool has_ready() const;

  LoaderReport report() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dtn
