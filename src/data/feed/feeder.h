// Batches where the model is. On a CUDA device the next batches cross the bus while the current
// step computes, in the form that the source carries them, and the device makes of them what it
// delivers; the model sees the same bits as on the CPU.
//
// At 224 x 224 a batch of 1024 images is 154 MB as pixels: 3 ms at 55 GB/s of PCIe 5, where float32
// images would take 11 ms. Making the images moves 771 MB within the device, 0.2 ms on an H200.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/feed/delivery.h"
#include "data/feed/loader.h"
#include "dtn/core/device.h"
#include "dtn/core/fields.h"

namespace dtn {

class DeviceRing;

// Valid until the feeder's next call. What has been enqueued for computing by then still sees it.
struct DeviceBatch {
  Fields fields;  // what the source delivers, n rows each, on the device
  // What the source carries, on the host, for those who look at a label or a name there. On the CPU
  // a field that is also delivered is the same tensor, finished.
  Fields host;
  std::vector<std::int64_t> indices;  // [n], in the data set
  std::int64_t n = 0;
  std::int64_t number = 0;  // position in the epoch; the next one resumes behind this batch
};

// The options of a loader whose batches go to `device`: for CUDA, in page-locked memory, the only
// kind that is copied while the device computes. Other loaders feed it too, only slower.
LoaderOptions feeding(Device device, LoaderOptions options);

struct FeederOptions {
  // On a CUDA device, the fields of every batch come to the same addresses, as a captured step
  // needs them. Otherwise those that are delivered as they were carried take turns between the
  // addresses they were copied to, which saves a copy within the device.
  bool fixed_addresses = true;
};

// Driven by one thread, and the only one to drive its loader, which must outlive it. No memory for
// fields is allocated once all buffers have been used, as long as the caller hands the same
// DeviceBatch in.
class BatchFeeder {
 public:
  BatchFeeder(Loader& loader, Device device, const FeederOptions& options = {});
  ~BatchFeeder();
  BatchFeeder(const BatchFeeder&) = delete;
  BatchFeeder& operator=(const BatchFeeder&) = delete;

  // Begins an epoch at `first_batch`, abandoning what was loaded ahead.
  void start(std::int64_t epoch, std::int64_t first_batch = 0);

  // The next batch. It is enqueued for computing, not waited for: at most a handful of batches are
  // on their way to the device. False at the end of the epoch. What the loader throws is thrown
  // here in place of the batch it belongs to.
  bool next(DeviceBatch& batch);

  // Of the loader.
  std::int64_t batches_per_epoch() const { return loader_.batches_per_epoch(); }
  // Of the loader; wait_seconds are those that next() waited for it.
  LoaderReport report() const { return loader_.report(); }

 private:
  void serve(const Batch& from, const Fields& carried, DeviceBatch& batch);

  Loader& loader_;
  Delivery delivery_;
  std::int64_t epoch_ = 0;
  Batch host_;                        // on the CPU
  std::unique_ptr<DeviceRing> ring_;  // on a CUDA device
};

}  // namespace dtn
