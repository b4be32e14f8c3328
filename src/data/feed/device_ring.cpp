#include "data/feed/device_ring.h"

#include "dtn/core/check.h"

namespace dtn {
namespace {

// One slot that the step reads, one whose copies run, and one whose copies wait.
constexpr std::size_t kSlots = 3;

}  // namespace

DeviceRing::DeviceRing(Loader& loader, Device device) : loader_(loader), slots_(kSlots) {
  const std::vector<FieldSpec> host_fields = with_lengths(loader.source().host_fields());
  for (Slot& slot : slots_) {
    for (const FieldSpec& field : host_fields) {
      slot.device[field.name] = allocate_rows(field, loader.batch_size(), device);
    }
    // The memory may come from the cache. Its former users are done with it at this event.
    slot.consumed.record();
  }
}

DeviceRing::~DeviceRing() {
  // Waits because the allocators reuse memory in the order of the computing stream and of the host.
  for (Slot& slot : slots_) {
    try {
      slot.copied.wait();
    } catch (const Error&) {
      // The device has failed; the next wait for a result reports it.
    }
  }
}

const DeviceRing::Slot* DeviceRing::take() {
  // The last slot may be overwritten after the step that was just enqueued.
  if (serving_) serving_->consumed.record();
  serving_ = nullptr;
  if (staged_ == 0 && !stage()) return nullptr;
  Slot& slot = slots_[head_];
  head_ = (head_ + 1) % kSlots;
  --staged_;
  serving_ = &slot;
  cuda::compute_after(slot.copied);
  view_rows(slot.device, slot.host.n, slot.rows);
  return &slot;
}

void DeviceRing::stage_ahead() {
  // One slot belongs to the step.
  while (staged_ + 1 < kSlots && loader_.has_ready() && slot_to_fill().copied.reached()) stage();
}

// Waits for the loader's next batch and enqueues its copies. Returns false at the end of the epoch.
bool DeviceRing::stage() {
  Slot& slot = slot_to_fill();
  slot.copied.wait();
  if (!loader_.next(slot.host)) return false;
  cuda::copies_after(slot.consumed);
  for (const auto& [name, from] : slot.host.fields) {
    cuda::copy_ahead(slot.device.at(name).raw(), from.raw(), from.nbytes());
  }
  slot.copied.record_copies();
  ++staged_;
  return true;
}

DeviceRing::Slot& DeviceRing::slot_to_fill() { return slots_[(head_ + staged_) % kSlots]; }

}  // namespace dtn
