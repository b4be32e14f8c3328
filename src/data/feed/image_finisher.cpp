#include <span>

#include "core/normal_noise.h"
#include "core/queue.h"
#include "data/feed/image_samples.h"
#include "data/sample/mixing.h"
#include "kernels/image/images.h"
#include "kernels/image/mix_images.h"

namespace dtn {
namespace {

class ImageFinisher final : public BatchFinisher {
 public:
  ImageFinisher(const Transform& transform, bool raw, const AugmentConfig& mixing, Device device)
      : device_(device), mixing_(mixing) {
    if (!raw) return;
    table_ = Tensor::from(transform.table(), {transform.channels(), 256}).to(device);
    if (!transform.erases()) return;
    const std::span noise(normal_table(), kNormalTableSize);
    normal_table_ = Tensor::from(noise, {kNormalTableSize}).to(device);
  }

  void finish(const Fields& host_batch, const BatchKey& key, Fields& device_batch) override {
    Tensor& images = device_batch.at("image");
    const std::int64_t n = images.dim(0), channels = images.dim(1), height = images.dim(2),
                       width = images.dim(3);
    auto* values = static_cast<float*>(images.raw());
    const auto host = [&](const char* field) { return host_batch.at(field).raw(); };
    if (table_.defined()) {
      run_on(device_, NormalizeImages{.batch = n,
                                      .channels = channels,
                                      .height = height,
                                      .width = width,
                                      .pixels = static_cast<const std::uint8_t*>(host("pixels")),
                                      .flips = static_cast<const std::uint8_t*>(host("flip")),
                                      .table = static_cast<const float*>(table_.raw()),
                                      .images = values});
    }
    if (normal_table_.defined()) {
      run_on(device_, EraseImages{.batch = n,
                                  .channels = channels,
                                  .height = height,
                                  .width = width,
                                  .boxes = static_cast<const std::int64_t*>(host("erasure")),
                                  .table = static_cast<const float*>(normal_table_.raw()),
                                  .images = values});
    }
    if (mixing_.mixes()) mix(key, device_batch);
  }

 private:
  // Mixes labels [n, K] in place.
  void mix_labels(Tensor& labels, float share) const {
    if (share == 1) return;
    run_on(device_, BlendPairs{labels.dim(0), labels.dim(1), share, 1 - share,
                               static_cast<float*>(labels.raw())});
  }

  // Mixes the images in place. With a share of 1, only the labels are written.
  void mix(const BatchKey& key, Fields& device_batch) const {
    Tensor& image = device_batch.at("image");
    const std::int64_t n = image.dim(0), channels = image.dim(1), height = image.dim(2),
                       width = image.dim(3);
    const BatchMix mix =
        sample_mix(static_cast<int>(width), static_cast<int>(height), mixing_, key);
    auto* images = static_cast<float*>(image.raw());
    const auto share = static_cast<float>(mix.share);
    if (mix.cut) {
      run_on(device_, SwapBoxes{n, channels, height, width, mix.left, mix.top, mix.width,
                                mix.height, images});
    } else if (mix.share != 1) {
      run_on(device_, BlendPairs{n, channels * height * width, share,
                                 static_cast<float>(1 - mix.share), images});
    }
    if (device_batch.has("labels")) return mix_labels(device_batch.at("labels"), share);
    run_on(device_,
           PairLabels{n, static_cast<const std::int64_t*>(device_batch.at("label").raw()), share,
                      static_cast<std::int64_t*>(device_batch.at("partner_label").raw()),
                      static_cast<float*>(device_batch.at("label_share").raw())});
  }

  const Device device_;
  const AugmentConfig mixing_;
  Tensor table_;         // [channels, 256] float32; only if raw
  Tensor normal_table_;  // only if images are erased
};

}  // namespace

std::unique_ptr<BatchFinisher> make_image_finisher(const Transform& transform, bool raw,
                                                   const AugmentConfig& mixing, Device device) {
  if (!raw && !mixing.mixes()) return nullptr;
  return std::make_unique<ImageFinisher>(transform, raw, mixing, device);
}

}  // namespace dtn
