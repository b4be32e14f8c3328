#include "tasks/detect/batch.h"

#include <algorithm>

#include "core/queue.h"
#include "dtn/core/check.h"
#include "kernels/image/images.h"

namespace dtn {
namespace {

PixelSize size_at(const Tensor& sizes, std::size_t i) {
  const std::int64_t* size = sizes.data<std::int64_t>() + 2 * i;
  return {size[0], size[1]};
}

// Reads the truths of image i of the ragged fields.
void read_truths(const Fields& host, std::size_t i, BatchImage& image) {
  const Tensor &boxes = host.at("boxes"), &truths = host.at("truths");
  const auto most = static_cast<std::size_t>(boxes.dim(1));
  const auto count = static_cast<std::size_t>(host.at(lengths_of("boxes")).data<std::int64_t>()[i]);
  const float* box = boxes.data<float>() + 4 * most * i;
  const std::int64_t* truth = truths.data<std::int64_t>() + 2 * most * i;
  for (std::size_t t = 0; t < count; ++t, box += 4, truth += 2) {
    image.boxes.push_back({box[0], box[1], box[2], box[3]});
    image.classes.push_back(truth[0]);
    image.annotations.push_back(truth[1]);
  }
}

PixelSize canvas_of(const std::vector<BatchImage>& images) {
  PixelSize canvas;
  for (const BatchImage& image : images) {
    canvas.height = std::max(canvas.height, image.padded.height);
    canvas.width = std::max(canvas.width, image.padded.width);
  }
  return canvas;
}

}  // namespace

DetectionBatch DetectionBatch::only(std::size_t i) const {
  DetectionBatch one{{images[i]}, {}};
  one.canvas = canvas_of(one.images);
  return one;
}

DetectionBatch read_batch(const Fields& fields, const DataConfig& data, std::uint64_t seed) {
  Fields host;
  for (const auto& [name, tensor] : fields) {
    if (name != "pixels" && tensor.defined()) host[name] = tensor.to(kCpu);
  }
  DetectionBatch batch;
  const Tensor* draws = host.find("draw");
  batch.images.resize(static_cast<std::size_t>(host.at("size").dim(0)));
  for (std::size_t i = 0; i < batch.images.size(); ++i) {
    BatchImage& image = batch.images[i];
    image.size = size_at(host.at("size"), i);
    image.original = size_at(host.at("original"), i);
    image.padded = padded_size(image.size, data);
    if (!draws) continue;
    const std::int64_t* draw = draws->data<std::int64_t>() + 3 * i;
    image.key = {seed, static_cast<std::uint32_t>(draw[1]), static_cast<std::uint64_t>(draw[0])};
    image.mirrored = draw[2] != 0;
    read_truths(host, i, image);
  }
  batch.canvas = canvas_of(batch.images);
  return batch;
}

Tensor padded_images(const Fields& fields, std::int64_t first, const DetectionBatch& batch,
                     const Tensor& table) {
  const auto count = static_cast<std::int64_t>(batch.images.size());
  const Tensor pixels = fields.at("pixels").slice(first, first + count);
  const Tensor sizes = fields.at("size").slice(first, first + count);
  const std::int64_t channels = table.dim(0);
  Tensor images = Tensor::empty({count, channels, batch.canvas.height, batch.canvas.width},
                                DType::kFloat32, pixels.device());
  run_on(pixels.device(), PadImages{.batch = count,
                                    .channels = channels,
                                    .height = batch.canvas.height,
                                    .width = batch.canvas.width,
                                    .capacity = pixels.dim(1),
                                    .pixels = static_cast<const std::uint8_t*>(pixels.raw()),
                                    .sizes = static_cast<const std::int64_t*>(sizes.raw()),
                                    .table = static_cast<const float*>(table.raw()),
                                    .images = static_cast<float*>(images.raw())});
  return images;
}

}  // namespace dtn
