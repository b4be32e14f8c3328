// Batches of prepared samples, loaded ahead by worker threads.
//
// What a batch holds depends on the data set, the transform, the seed, the epoch and the position
// in it, never on the number of workers or on when they run. To resume, start() at the epoch and
// batch where the run stopped.
//
// Several processes (ranks) share every batch: a loader gives its rank's rows of the *global*
// batches, which hold the same samples whatever the number of ranks. So a run may go on with
// another number of ranks at any batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/sample/transforms.h"
#include "dtn/core/tensor.h"
#include "dtn/data/dataset.h"

namespace dtn {

struct LoaderOptions {
  std::int64_t batch_size = 1;  // of a global batch: samples of all ranks together
  int rank = 0, ranks = 1;      // see rows_of_rank()
  bool shuffle = false;
  std::uint64_t seed = 0;
  int workers = 0;  // 0: samples are prepared by the thread that calls next()
  // For training: every batch is full. The ragged last one is dropped, and a damaged image gives
  // its place to the next good one of the data set. Otherwise (evaluation) the last batch may be
  // smaller, and a damaged image is left out of its batch; every image comes up once, in one rank.
  bool drop_last = false;
  int repeats = 1;  // times an epoch goes through the data set, each time in an order of its own
  // Repeated augmentation: samples in a row that an image gives, each under random numbers of its
  // own. A pass through the data set then ends early, see epoch_length().
  int copies = 1;
  // Damaged images to put up with in the life of the loader; one more is a DataError.
  std::int64_t max_bad_images = 100;
  // Batches carry pixels, for a device that mirrors and normalizes them itself: a quarter of the
  // bytes. A data set without pixels gives images all the same.
  bool raw_pixels = false;
  // Where the memory of batches comes from, such as page-locked memory; called by the thread that
  // makes the loader and by the one that calls next(). Empty: allocate_cached.
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> allocate;
};

// As many as data.workers says. If it does not: two where training is done by the CPU, which wants
// the cores, and for another device nearly all cores of this process, as it may take images faster
// than they prepare them; at most 32.
int workers_of(const DataConfig& data, Device device);

// Carries `images`, or where Loader::gives_pixels() says so `pixels`, `flips` and `erasures`, from
// which Transform::table() and normal_table() make the same images to the last bit.
struct Batch {
  Tensor images;                      // [n, channels, size, size] float32
  Tensor pixels;                      // [n, size, size, channels] uint8, not mirrored yet
  Tensor flips;                       // [n] uint8, 1: to be mirrored left to right
  Tensor erasures;                    // [n, 5] int64, see EraseImages; where Transform::erases()
  Tensor labels;                      // [n] int64
  std::vector<std::int64_t> indices;  // [n], in the data set
  std::int64_t n = 0;
  std::int64_t number = 0;  // position in the epoch; the next one resumes behind this batch
};

struct LoaderReport {
  std::int64_t bad_images = 0;         // damaged images met so far, each counted once
  std::vector<std::string> bad_names;  // of the first hundred, in the order they were met
  double wait_seconds = 0;             // that next() spent waiting for samples
};

// The order in which an epoch visits n samples: a permutation of 0 .. n-1 drawn by Fisher and
// Yates' shuffle, or just 0 .. n-1. `repeat` numbers the passes of an epoch.
std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t n,
                                      bool shuffle, std::int64_t repeat = 0);

// Samples of an epoch over all ranks, `repeats` times those of a pass: one for each image; or, with
// `copies` of each in a row, as many up to a multiple of 256 below (all, when there are fewer), so
// that a pass ends after 1/copies of the images. (RASampler of DeiT, Touvron et al., 2021.)
// DataError when they cannot be counted.
std::int64_t epoch_length(std::int64_t images, int repeats, int copies);

// The rows of a global batch that are a rank's, ascending: row i and its mirror image, row
// batch_size - 1 - i, belong to rank min(i, batch_size - 1 - i) mod ranks. Mixing a batch with its
// own reverse thus never crosses ranks and finds the same partners whatever their number, while
// copies in a row are spread over the ranks. Shares differ by at most two rows; they are equal
// where 2 x ranks divides batch_size.
std::vector<std::int64_t> rows_of_rank(std::int64_t batch_size, int rank, int ranks);

// Driven by one thread. At most max(3, 2 x workers / batch_size() + 1) batches are held ready or in
// the making; once they exist, nothing is allocated as long as the caller hands the same Batch in.
class Loader {
 public:
  // Throws DataError when the data set is empty or cannot fill one batch under drop_last, and
  // ConfigError when a batch has too few rows for all ranks. Should the system refuse threads, the
  // loader makes do with those it got.
  Loader(std::shared_ptr<const Dataset> dataset, Transform transform, const LoaderOptions& options);
  // Stops the workers, at the latest after the image each is at.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Global batches, the same for all ranks. In an evaluation a rank may have no row of the last.
  std::int64_t batches_per_epoch() const;
  // Of this rank. Upper bound for an evaluation: damaged images are left out.
  std::int64_t samples_per_epoch() const;
  // This rank's rows of a full batch, at least 1; no batch has more.
  std::int64_t batch_size() const;
  // Whether batches carry pixels and flips in place of images.
  bool gives_pixels() const;
  const Transform& transform() const;

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
