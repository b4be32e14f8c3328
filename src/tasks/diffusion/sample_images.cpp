#include "tasks/diffusion/sample_images.h"

#include <algorithm>

#include "core/normal_noise.h"
#include "core/queue.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"
#include "kernels/image/sampler_step.h"

namespace dtn {
namespace {

constexpr std::uint32_t kNoiseStream = 0x53414d50u;  // "SAMP"

Shape images_shape(std::int64_t n, const Shape& image) { return {n, image[0], image[1], image[2]}; }

// Rows [first, end) of the noise z of one step.
Tensor rows_of_step(const Tensor& z, std::int64_t step, std::int64_t first, std::int64_t end,
                    Device device) {
  const Tensor all = z.slice(step, step + 1).reshape({z.dim(1), z.dim(2), z.dim(3), z.dim(4)});
  return all.slice(first, end).to(device);
}

Tensor labels_of(const std::vector<std::int64_t>& labels, std::int64_t first, std::int64_t end,
                 Device device) {
  return Tensor::from(std::span(labels).subspan(static_cast<std::size_t>(first),
                                                static_cast<std::size_t>(end - first)),
                      {end - first})
      .to(device);
}

}  // namespace

ImageNoise::ImageNoise(std::uint64_t seed, const Shape& image, Device device)
    : seed_(seed),
      image_(image),
      table_(Tensor::from(std::span(normal_table(), kNormalTableSize), {kNormalTableSize})
                 .to(device)) {}

Tensor ImageNoise::draw(std::int64_t first, std::int64_t count, std::uint32_t draw) const {
  Tensor seeds = Tensor::empty({count}, DType::kInt64);
  for (std::int64_t i = 0; i < count; ++i) {
    const Philox4 words =
        philox_group({seed_, kNoiseStream, draw}, static_cast<std::uint64_t>(first + i));
    seeds.data<std::int64_t>()[i] =
        static_cast<std::int64_t>(words.v[0] | static_cast<std::uint64_t>(words.v[1]) << 32);
  }
  const Device device = table_.device();
  const Tensor on_device = seeds.to(device);
  Tensor noise = Tensor::empty(images_shape(count, image_), DType::kFloat32, device);
  run_on(device, NormalNoise{.batch = count,
                             .values = image_.numel(),
                             .seeds = static_cast<const std::int64_t*>(on_device.raw()),
                             .table = static_cast<const float*>(table_.raw()),
                             .noise = static_cast<float*>(noise.raw())});
  return noise;
}

Tensor sample_images(const Sampler& sampler, const Denoiser& model, Device device,
                     const SampleRequest& request) {
  const auto n = static_cast<std::int64_t>(request.labels.size());
  DTN_CHECK(request.image.rank() == 3 && request.batch > 0, "sample_images: an image ",
            to_string(request.image), ", batches of ", request.batch);
  const ImageNoise drawn(request.seed, request.image, device);
  const GivenNoise& given = request.noise;
  Tensor samples = Tensor::empty(images_shape(n, request.image), DType::kFloat32);
  for (std::int64_t first = 0; first < n; first += request.batch) {
    const std::int64_t end = std::min(n, first + request.batch), count = end - first;
    Tensor x = given.x.defined() ? given.x.slice(first, end).clone().to(device)
                                 : drawn.start(first, count);
    const auto noise = [&](std::int64_t step) {
      return given.z.defined() ? rows_of_step(given.z, step, first, end, device)
                               : drawn.step(first, count, step);
    };
    const auto on_step = [&](std::int64_t done) {
      if (!request.on_progress) return true;
      return request.on_progress(first * sampler.steps() + done * count, n * sampler.steps());
    };
    const Tensor labels = labels_of(request.labels, first, end, device);
    if (!sampler.run(model, x, labels, noise, on_step)) return {};
    samples.slice(first, end).copy_from(x);
  }
  return samples;
}

}  // namespace dtn
