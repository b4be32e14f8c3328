// Options for making batches of a data set.
#pragma once

#include <cstdint>
#include <vector>

#include "data/feed/field_buffers.h"
#include "dtn/config/data_config.h"
#include "dtn/core/device.h"
#include "dtn/data/sample_source.h"

namespace dtn {

struct LoaderOptions {
  std::int64_t batch_size = 1;  // global: samples of all ranks together
  int rank = 0, ranks = 1;      // see rows_of_rank()
  bool shuffle = false;
  // Lengths of all samples, so that shuffled batches consist of samples of similar length (see
  // length_buckets.h). If empty, lengths do not matter.
  std::vector<std::int64_t> lengths{};
  // Draws a random class and then a random sample of it for each place of a shuffled epoch; see
  // balanced_order.h.
  bool balanced = false;
  // Classes of all samples, if `balanced`.
  std::vector<std::int64_t> labels{};
  // Groups of all samples, so that each shuffled batch has samples of one group (see
  // batch_groups.h). If empty, samples have no groups.
  std::vector<std::uint8_t> groups{};
  std::uint64_t seed = 0;
  int workers = 0;  // 0: the thread that calls next() prepares the samples
  // For training: every batch is full. The incomplete last batch is dropped, and a damaged sample
  // is replaced by the next good one of the data set. Otherwise (evaluation), the last batch may be
  // smaller and a damaged sample is left out of its batch. Every sample occurs once, in one rank.
  bool drop_last = false;
  int repeats = 1;  // passes through the data set per epoch, each in a different order
  // Repeated augmentation: the number of samples in a row from one item, each with different random
  // numbers. A pass through the data set then ends early; see epoch_length().
  int copies = 1;
  // Damaged samples that the loader tolerates in its lifetime. One more is a DataError.
  std::int64_t max_bad_images = 100;
  // Allocator of batch memory, such as page-locked memory. Called by the thread that makes the
  // loader and by the thread that calls next().
  HostMemory allocate;
};

// Returns the options for a source, with its lengths, groups and classes, after checking them.
// Throws DataError if the source is empty or cannot fill one batch under drop_last. Throws
// ConfigError if a batch has too few rows for all ranks, if batches by length or group are combined
// with repeated augmentation, or if samples without classes are to be balanced.
LoaderOptions checked(const LoaderOptions& options, const SampleSource& source);

// Returns data.workers if it is set. Otherwise returns two for training on the CPU, which needs the
// cores. For another device it returns nearly all cores of this process, at most 32: the device may
// take samples faster than the cores prepare them.
int workers_of(const DataConfig& data, Device device);

}  // namespace dtn
