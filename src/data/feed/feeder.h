// Batches where the model is. On a CUDA device the next batches cross the bus while the current
// step computes, as the bytes of their pixels, and the device mirrors, normalizes and erases; the
// model sees the same bits as on the CPU. In training, whole batches are mixed here.
#pragma once

#include <cstdint>
#include <vector>

#include "data/feed/loader.h"
#include "dtn/config/data_config.h"
#include "dtn/core/device.h"
#include "dtn/core/tensor.h"

namespace dtn {

// Valid until the feeder's next call. What has been enqueued for computing by then still sees it.
struct DeviceBatch {
  Tensor images;  // [n, channels, size, size] float32, on the device
  Tensor labels;  // [n] int64, on the device
  // Where FeederOptions::augment mixes, else undefined: the label of the image that each is mixed
  // with, [n] int64, and how much its own counts, [n] float32, on the device.
  Tensor partner_labels, label_share;
  Tensor host_labels;                 // [n] int64, on the CPU
  std::vector<std::int64_t> indices;  // [n], in the data set
  std::int64_t n = 0;
  std::int64_t number = 0;  // position in the epoch; the next one resumes behind this batch
};

// The options of a loader whose batches go to `device`: for CUDA, raw pixels in page-locked memory,
// the only kind that is copied while the device computes. Other loaders feed it too, only slower.
LoaderOptions feeding(Device device, LoaderOptions options);

struct FeederOptions {
  // On a CUDA device, the images and labels of every batch come to the same addresses, as a
  // captured step needs them. Otherwise they take turns between those they were copied to, which
  // saves a copy within the device where the loader gives no pixels.
  bool fixed_addresses = true;
  // Whether and how batches are mixed, see dtn/data/mixing.h; by random numbers of this seed, the
  // epoch and the batch's number in it.
  AugmentConfig augment{};
  std::uint64_t seed = 0;
};

// Driven by one thread, and the only one to drive its loader, which must outlive it. Nothing is
// allocated for a batch once all buffers have been used, as long as the caller hands the same
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
  struct Slot;
  bool next_on_host(DeviceBatch& batch);
  bool stage();
  void serve(DeviceBatch& batch);
  void retire();
  Slot& slot_to_fill();
  void make_images(const Batch& from, Tensor& images) const;
  void mix(DeviceBatch& batch);

  Loader& loader_;
  const Device device_;
  const bool fixed_;
  const AugmentConfig augment_;
  const std::uint64_t seed_;
  std::int64_t epoch_ = 0;
  Tensor table_;             // [channels, 256] float32, on the device
  Tensor normal_table_;      // where images are erased from, on the device
  Tensor images_;            // [batch_size, channels, size, size]; where all images come to
  Tensor labels_;            // [batch_size]; where all labels come to
  Tensor partner_labels_;    // [batch_size]; where batches are mixed
  Tensor label_share_;       // [batch_size]
  Batch host_;               // on the CPU
  std::vector<Slot> ring_;   // on a CUDA device
  std::size_t head_ = 0;     // the slot to be served next
  std::size_t staged_ = 0;   // slots from there on whose copies are enqueued
  Slot* serving_ = nullptr;  // what the current step reads
};

}  // namespace dtn
