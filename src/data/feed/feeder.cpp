// A slot of the ring is the way of one batch: the loader fills page-locked memory, the copy stream
// takes it to the device, the computing stream makes images of it. Two events keep the order:
//
//   copied    at the end of a slot's copies. The computing stream waits for it before it reads the
//             slot, and the host before it gives the page-locked memory back to the loader.
//   consumed  behind the step that used a slot. The copy stream waits for it before the slot's next
//             copies overwrite what the step may still read.
//
// The call that serves batch k also stages those behind it, as many as the loader has ready and the
// ring has room for, so that they cross the bus during step k. At 224 x 224 a batch of 1024 is
// 154 MB: 3 ms at 55 GB/s of PCIe 5, where float32 images would take 11 ms. Making the images moves
// 771 MB within the device, 0.2 ms on an H200.
#include "data/feed/feeder.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/cuda_device.h"
#include "core/cuda_stream.h"
#include "core/normal_noise.h"
#include "core/queue.h"
#include "data/sample/mixing.h"
#include "dtn/core/check.h"
#include "kernels/image/images.h"
#include "kernels/image/mix_images.h"

namespace dtn {
namespace {

// One that the step reads, one whose copies run, one whose copies are waiting.
constexpr std::size_t kSlots = 3;

// Page-locking takes milliseconds and waits for the device, so what a loader lets go, as it does
// around a batch that is not full, is kept for its next request.
class PinnedCache : public std::enable_shared_from_this<PinnedCache> {
 public:
  std::shared_ptr<std::byte> take(std::size_t bytes) {
    std::shared_ptr<std::byte> block = from_bin(bytes);
    if (!block) block = cuda::allocate_pinned(bytes);
    std::byte* address = block.get();
    return {address, [cache = shared_from_this(), block = std::move(block), bytes](auto*) mutable {
              cache->give_back(bytes, std::move(block));
            }};
  }

 private:
  using Block = std::shared_ptr<std::byte>;

  Block from_bin(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    std::vector<Block>& bin = bins_[bytes];
    if (bin.empty()) return nullptr;
    Block block = std::move(bin.back());
    bin.pop_back();
    return block;
  }
  void give_back(std::size_t bytes, Block block) {
    std::lock_guard lock(mutex_);
    bins_[bytes].push_back(std::move(block));
  }

  std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<Block>> bins_;
};

// Enqueues the copy of a batch's rows to the front of a buffer on the device.
void copy_rows_ahead(Tensor& to, const Tensor& from) {
  if (from.defined()) cuda::copy_ahead(to.raw(), from.raw(), from.nbytes());
}

}  // namespace

LoaderOptions feeding(Device device, LoaderOptions options) {
  if (device.type != DeviceType::kCuda) return options;
  options.raw_pixels = true;
  options.allocate = [cache = std::make_shared<PinnedCache>()](std::size_t bytes) {
    return cache->take(bytes);
  };
  return options;
}

struct BatchFeeder::Slot {
  Batch host;  // page-locked
  // On the device, batch_size rows of what the loader gives; and of images too when they are made
  // here.
  Batch device;
  cuda::Event copied, consumed;
};

BatchFeeder::BatchFeeder(Loader& loader, Device device, const FeederOptions& options)
    : loader_(loader),
      device_(device),
      fixed_(options.fixed_addresses),
      augment_(options.augment),
      seed_(options.seed) {
  const Transform& transform = loader.transform();
  const std::int64_t n = loader.batch_size(), channels = transform.channels();
  const std::int64_t side = transform.image_size();
  const bool raw = loader.gives_pixels(), on_device = device.type == DeviceType::kCuda;
  const Shape images{n, channels, side, side};
  if (raw) table_ = Tensor::from(transform.table(), {channels, 256}).to(device);
  if (raw && transform.erases()) {
    const std::span table(normal_table(), kNormalTableSize);
    normal_table_ = Tensor::from(table, {kNormalTableSize}).to(device);
  }
  if (augment_.mixes()) {
    partner_labels_ = Tensor::empty({n}, DType::kInt64, device);
    label_share_ = Tensor::empty({n}, DType::kFloat32, device);
  }
  if (on_device ? fixed_ : raw) images_ = Tensor::empty(images, DType::kFloat32, device);
  if (!on_device) return;
  if (fixed_) labels_ = Tensor::empty({n}, DType::kInt64, device);
  ring_.resize(kSlots);
  for (Slot& slot : ring_) {
    Batch& rows = slot.device;
    if (raw) rows.pixels = Tensor::empty({n, side, side, channels}, DType::kUInt8, device);
    if (raw) rows.flips = Tensor::empty({n}, DType::kUInt8, device);
    if (normal_table_.defined()) rows.erasures = Tensor::empty({n, 5}, DType::kInt64, device);
    if (!raw || !fixed_) rows.images = Tensor::empty(images, DType::kFloat32, device);
    rows.labels = Tensor::empty({n}, DType::kInt64, device);
    // The memory may come from the cache: its former users are done with it once this is reached.
    slot.consumed.record();
  }
}

BatchFeeder::~BatchFeeder() {
  // The allocators give memory away in the order of the computing stream and of the host.
  for (Slot& slot : ring_) {
    try {
      slot.copied.wait();
    } catch (const Error&) {
      // The device has failed; whoever waits for a result is told.
    }
  }
}

void BatchFeeder::start(std::int64_t epoch, std::int64_t first_batch) {
  staged_ = 0;
  epoch_ = epoch;
  loader_.start(epoch, first_batch);
}

bool BatchFeeder::next(DeviceBatch& batch) {
  // The loader uses memory again that nobody holds.
  batch.images = batch.labels = batch.host_labels = batch.partner_labels = batch.label_share =
      Tensor();
  batch.n = 0;
  if (device_.type == DeviceType::kCpu) return next_on_host(batch);
  cuda::TraceRange range("feed");
  retire();
  if (staged_ == 0 && !stage()) return false;
  serve(batch);
  // One slot is the step's. Without waiting, neither for the loader nor for the device.
  while (staged_ + 1 < kSlots && loader_.has_ready() && slot_to_fill().copied.reached()) stage();
  return true;
}

bool BatchFeeder::next_on_host(DeviceBatch& batch) {
  if (!loader_.next(host_)) return false;
  batch.images = host_.images;
  if (loader_.gives_pixels()) {
    batch.images = images_.slice(0, host_.n);
    make_images(host_, batch.images);
  }
  batch.labels = batch.host_labels = host_.labels;
  batch.indices = host_.indices;
  batch.n = host_.n;
  batch.number = host_.number;
  mix(batch);
  return true;
}

// Takes the loader's next batch, waiting for it, and enqueues its copies. False at the end of the
// epoch.
bool BatchFeeder::stage() {
  Slot& slot = slot_to_fill();
  slot.copied.wait();
  if (!loader_.next(slot.host)) return false;
  cuda::copies_after(slot.consumed);
  for (Tensor Batch::*rows :
       {&Batch::pixels, &Batch::flips, &Batch::erasures, &Batch::images, &Batch::labels}) {
    copy_rows_ahead(slot.device.*rows, slot.host.*rows);
  }
  slot.copied.record_copies();
  ++staged_;
  return true;
}

// Enqueues for computing what makes the oldest staged batch ready for a step.
void BatchFeeder::serve(DeviceBatch& batch) {
  Slot& slot = ring_[head_];
  head_ = (head_ + 1) % kSlots;
  --staged_;
  serving_ = &slot;
  const std::int64_t n = slot.host.n;
  cuda::compute_after(slot.copied);
  batch.images = (fixed_ ? images_ : slot.device.images).slice(0, n);
  batch.labels = (fixed_ ? labels_ : slot.device.labels).slice(0, n);
  if (loader_.gives_pixels()) {
    make_images(slot.device, batch.images);
  } else if (fixed_) {
    batch.images.copy_from(slot.device.images.slice(0, n));
  }
  if (fixed_) batch.labels.copy_from(slot.device.labels.slice(0, n));
  batch.host_labels = slot.host.labels;
  batch.indices = slot.host.indices;
  batch.n = n;
  batch.number = slot.host.number;
  mix(batch);
}

// What the step that has just been enqueued reads may be overwritten behind it.
void BatchFeeder::retire() {
  if (serving_) serving_->consumed.record();
  serving_ = nullptr;
}

BatchFeeder::Slot& BatchFeeder::slot_to_fill() { return ring_[(head_ + staged_) % kSlots]; }

// Mirrors, normalizes and erases.
void BatchFeeder::make_images(const Batch& from, Tensor& images) const {
  const NormalizeImages normalize{
      .batch = images.dim(0),
      .channels = images.dim(1),
      .height = images.dim(2),
      .width = images.dim(3),
      .pixels = static_cast<const std::uint8_t*>(from.pixels.raw()),
      .flips = static_cast<const std::uint8_t*>(from.flips.raw()),
      .table = static_cast<const float*>(table_.raw()),
      .images = static_cast<float*>(images.raw()),
  };
  run_on(device_, normalize);
  if (!from.erasures.defined()) return;
  const EraseImages erase{
      .batch = images.dim(0),
      .channels = images.dim(1),
      .height = images.dim(2),
      .width = images.dim(3),
      .boxes = static_cast<const std::int64_t*>(from.erasures.raw()),
      .table = static_cast<const float*>(normal_table_.raw()),
      .images = static_cast<float*>(images.raw()),
  };
  run_on(device_, erase);
}

// Mixes the images in place; with a share of 1 only the labels are written.
void BatchFeeder::mix(DeviceBatch& batch) {
  if (!augment_.mixes()) return;
  const std::int64_t n = batch.n, channels = batch.images.dim(1), height = batch.images.dim(2),
                     width = batch.images.dim(3);
  const BatchMix mix = sample_mix(
      static_cast<int>(width), static_cast<int>(height), augment_,
      {seed_, static_cast<std::uint32_t>(epoch_), static_cast<std::uint64_t>(batch.number)});
  auto* images = static_cast<float*>(batch.images.raw());
  const auto share = static_cast<float>(mix.share);
  if (mix.cut) {
    run_on(device_,
           SwapBoxes{n, channels, height, width, mix.left, mix.top, mix.width, mix.height, images});
  } else if (mix.share != 1) {
    run_on(device_, BlendPairs{n, channels * height * width, share,
                               static_cast<float>(1 - mix.share), images});
  }
  batch.partner_labels = partner_labels_.slice(0, n);
  batch.label_share = label_share_.slice(0, n);
  run_on(device_, PairLabels{n, static_cast<const std::int64_t*>(batch.labels.raw()), share,
                             static_cast<std::int64_t*>(batch.partner_labels.raw()),
                             static_cast<float*>(batch.label_share.raw())});
}

}  // namespace dtn
