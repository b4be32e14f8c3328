#include "data/feed/feeder.h"

#include <algorithm>

#include "core/cuda_device.h"
#include "data/feed/device_ring.h"
#include "data/feed/field_buffers.h"
#include "dtn/core/check.h"

namespace dtn {

LoaderOptions feeding(Device device, LoaderOptions options) {
  if (device.type == DeviceType::kCuda) options.allocate = pinned_memory();
  return options;
}

BatchFeeder::BatchFeeder(Loader& loader, Device device)
    : loader_(loader), finisher_(loader.source().make_finisher(device)) {
  const bool on_cuda = device.type == DeviceType::kCuda;
  const SampleSource& source = loader.source();
  const std::vector<FieldSpec> host_fields = with_lengths(source.host_fields());
  for (const FieldSpec& field : with_lengths(source.device_fields())) {
    const bool passes = std::ranges::count(host_fields, field) > 0;
    DTN_CHECK(passes || finisher_, source.description(), ": no step computes the field '",
              field.name, "'");
    (passes ? passed_ : made_).push_back(field);
    if (passes && !on_cuda) continue;
    buffers_[field.name] = allocate_rows(field, loader.batch_size(), device);
  }
  if (on_cuda) ring_ = std::make_unique<DeviceRing>(loader, device);
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
  fill(host_batch, from.n, key, batch.fields);
  view_rows(from.fields, from.n, batch.host);
  batch.indices = from.indices;
  batch.n = from.n;
  batch.number = from.number;
}

// Enqueues the conversion of the n rows of `host_batch` into `device_batch`.
void BatchFeeder::fill(const Fields& host_batch, std::int64_t n, const BatchKey& key,
                       Fields& device_batch) {
  for (const FieldSpec& field : passed_) {
    const Tensor& from = host_batch.at(field.name);
    const Tensor* buffer = buffers_.find(field.name);
    Tensor& to = device_batch[field.name] = buffer ? buffer->slice(0, n) : from;
    if (buffer) to.copy_from(from);
  }
  for (const FieldSpec& field : made_) {
    device_batch[field.name] = buffers_.at(field.name).slice(0, n);
  }
  if (finisher_) finisher_->finish(host_batch, key, device_batch);
}

}  // namespace dtn
