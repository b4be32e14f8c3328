// How a data set becomes batches.
#pragma once

#include <cstdint>
#include <vector>

#include "data/feed/field_buffers.h"
#include "dtn/config/data_config.h"
#include "dtn/core/device.h"
#include "dtn/data/sample_source.h"

namespace dtn {

struct LoaderOptions {
  std::int64_t batch_size = 1;  // of a global batch: samples of all ranks together
  int rank = 0, ranks = 1;      // see rows_of_rank()
  bool shuffle = false;
  // Of all samples, so that shuffled batches consist of samples of about equal length (see
  // length_buckets.h); empty: of any.
  std::vector<std::int64_t> lengths{};
  std::uint64_t seed = 0;
  int workers = 0;  // 0: samples are prepared by the thread that calls next()
  // For training: every batch is full. The ragged last one is dropped, and a damaged sample gives
  // its place to the next good one of the data set. Otherwise (evaluation) the last batch may be
  // smaller, and a damaged sample is left out of its batch; every one comes up once, in one rank.
  bool drop_last = false;
  int repeats = 1;  // times an epoch goes through the data set, each time in an order of its own
  // Repeated augmentation: samples in a row that an item gives, each under random numbers of its
  // own. A pass through the data set then ends early, see epoch_length().
  int copies = 1;
  // Damaged samples to put up with in the life of the loader; one more is a DataError.
  std::int64_t max_bad_images = 100;
  // Where the memory of batches comes from, such as page-locked memory; called by the thread that
  // makes the loader and by the one that calls next().
  HostMemory allocate;
};

// The options for a source, with its lengths, if it can be loaded with them. Throws DataError when it
// is empty or cannot fill one batch under drop_last, and ConfigError when a batch has too few rows
// for all ranks, or batches by length meet repeated augmentation.
LoaderOptions checked(const LoaderOptions& options, const SampleSource& source);

// As many as data.workers says. If it does not: two where training is done by the CPU, which wants
// the cores, and for another device nearly all cores of this process, as it may take samples faster
// than they prepare them; at most 32.
int workers_of(const DataConfig& data, Device device);

}  // namespace dtn
