// Draws images from a diffusion model in batches of bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tasks/diffusion/sampler.h"

namespace dtn {

// Noise of images, float32, on a device. It depends only on the seed, the number of the image and
// the draw, and on the element of the image: not on the device, nor on which images are drawn
// together.
class ImageNoise {
 public:
  // `image`: shape [C, H, W].
  ImageNoise(std::uint64_t seed, const Shape& image, Device device);

  // The noise that sampling begins with, of images first .. first + count - 1:
  // [count, C, H, W].
  Tensor start(std::int64_t first, std::int64_t count) const { return draw(first, count, 0); }
  // The noise of a step of the sampler; step 0 is the noisiest.
  Tensor step(std::int64_t first, std::int64_t count, std::int64_t step) const {
    return draw(first, count, static_cast<std::uint32_t>(step + 1));
  }

 private:
  Tensor draw(std::int64_t first, std::int64_t count, std::uint32_t draw) const;

  std::uint64_t seed_;
  Shape image_;
  Tensor table_;
};

// Given noise instead of drawn noise.
struct GivenNoise {
  Tensor x;  // [N, C, H, W] float32 on the host; undefined: drawn
  Tensor z;  // [steps, N, C, H, W], noisiest step first; undefined: drawn
};

struct SampleRequest {
  std::vector<std::int64_t> labels;  // of the N images
  Shape image;                       // [C, H, W]
  std::uint64_t seed = 0;
  std::int64_t batch = 64;  // images that the device works on together
  GivenNoise noise{};
  // Called before each step of each batch, and at the end, with the finished and all steps of
  // images. Returns false to stop.
  std::function<bool(std::int64_t done, std::int64_t total)> on_progress{};
};

// Returns samples [N, C, H, W] float32 on the host. Undefined if `on_progress` stopped the work.
Tensor sample_images(const Sampler& sampler, const Denoiser& model, Device device,
                     const SampleRequest& request);

}  // namespace dtn
