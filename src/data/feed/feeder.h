// Batches on the model's device. On a CUDA device, the next batches cross the bus while the current
// step computes. The host batch crosses, and the device converts it to the device batch. The model
// sees the same bits as on the CPU.
//
// A batch of 1024 images of 224 x 224 has 154 MB as pixels: 3 ms at 55 GB/s of PCIe 5, where
// float32 images would take 11 ms. The conversion moves 771 MB within the device, 0.2 ms on an
// H200.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/feed/loader.h"
#include "dtn/core/device.h"
#include "dtn/core/fields.h"

namespace dtn {

class DeviceRing;

// Valid until the feeder's next call. Work that is enqueued by then still sees the contents.
struct DeviceBatch {
  Fields fields;  // the device batch: n rows of SampleSource::device_fields()
  // The host batch, for code that reads labels or names on the host. On the CPU, a field that is
  // also in `fields` is the same tensor, after the finisher.
  Fields host;
  std::vector<std::int64_t> indices;  // [n], in the data set
  std::int64_t n = 0;
  std::int64_t number = 0;  // position in the epoch; to resume after it, start at number + 1
};

// Returns the options of a loader whose batches go to `device`. For CUDA they use page-locked
// memory, the only kind that is copied while the device computes. Other loaders work too, but
// slower.
LoaderOptions feeding(Device device, LoaderOptions options);

// On a CUDA device, the fields of every batch are at the same addresses, as a captured step
// requires. Used by one thread. Nothing else may use its loader, which must outlive it. Once all
// buffers have been used, no memory for fields is allocated as long as the caller passes the same
// DeviceBatch.
class BatchFeeder {
 public:
  // Throws Error if a device field is not in the host batch and the source has no finisher.
  BatchFeeder(Loader& loader, Device device);
  ~BatchFeeder();
  BatchFeeder(const BatchFeeder&) = delete;
  BatchFeeder& operator=(const BatchFeeder&) = delete;

  // Starts an epoch at `first_batch` and discards batches that were loaded ahead.
  void start(std::int64_t epoch, std::int64_t first_batch = 0);

  // Gets the next batch. The batch is enqueued for computing, not waited for: only a few batches
  // are on their way to the device. Returns false at the end of the epoch. An exception of the
  // loader is thrown here, in place of the batch it belongs to.
  bool next(DeviceBatch& batch);

  // Same as Loader::batches_per_epoch().
  std::int64_t batches_per_epoch() const { return loader_.batches_per_epoch(); }
  // The loader's report; wait_seconds is the time that next() waited for the loader.
  LoaderReport report() const { return loader_.report(); }

 private:
  void serve(const Batch& from, const Fields& host_batch, DeviceBatch& batch);
  void fill(const Fields& host_batch, std::int64_t n, const BatchKey& key, Fields& device_batch);

  Loader& loader_;
  std::vector<FieldSpec> passed_, made_;  // in both batches; made by the finisher
  Fields buffers_;                        // rows of a full batch, for fields with their own memory
  std::unique_ptr<BatchFinisher> finisher_;
  std::int64_t epoch_ = 0;
  Batch host_;                        // used on the CPU
  std::unique_ptr<DeviceRing> ring_;  // used on a CUDA device
};

}  // namespace dtn
