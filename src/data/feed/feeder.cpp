#include "data/feed/feeder.h"

#include <utility>

#include "core/cuda_device.h"
#include "data/feed/device_ring.h"
#include "data/feed/pinned_memory.h"

namespace dtn {

LoaderOptions feeding(Device device, LoaderOptions options) {
  if (device.type == DeviceType::kCuda) options.allocate = pinned_memory();
  return options;
}

BatchFeeder::BatchFeeder(Loader& loader, Device device, const FeederOptions& options)
    : loader_(loader),
      fields_(loader.source(), loader.batch_size(), device,
              device.type == DeviceType::kCuda && options.fixed_addresses) {
  if (device.type == DeviceType::kCuda) ring_ = std::make_unique<DeviceRing>(loader, device);
}

BatchFeeder::~BatchFeeder() = default;

void BatchFeeder::start(std::int64_t epoch, std::int64_t first_batch) {
  if (ring_) ring_->clear();
  epoch_ = epoch;
  loader_.start(epoch, first_batch);
}

bool BatchFeeder::next(DeviceBatch& batch) {
  // Released, so that the loader can reuse the memory.
  batch.fields.release();
  batch.host.release();
  batch.n = 0;
  if (!ring_) {
    if (!loader_.next(host_)) return false;
    serve(host_, host_.fields, batch);
    return true;
  }
  cuda::TraceRange range("feed");
  const DeviceRing::Slot* slot = ring_->take();
  if (!slot) return false;
  serve(slot->host, slot->rows, batch);
  ring_->stage_ahead();
  return true;
}

void BatchFeeder::serve(const Batch& from, const Fields& host_batch, DeviceBatch& batch) {
  const BatchKey key{loader_.options().seed, static_cast<std::uint32_t>(epoch_),
                     static_cast<std::uint64_t>(from.number)};
  fields_.fill(host_batch, from.n, key, batch.fields);
  view_rows(from.fields, from.n, batch.host);
  batch.indices = from.indices;
  batch.n = from.n;
  batch.number = from.number;
}

}  // namespace dtn
