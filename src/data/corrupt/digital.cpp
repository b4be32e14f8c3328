// Brightness, saturation, contrast, coarse pixels and JPEG.
#include <algorithm>
#include <array>

#include "data/corrupt/families.h"
#include "data/corrupt/kernels.h"
#include "data/sample/no_contraction.h"
#include "io/image/image_encode.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

void change_hsv(const Image& image, const HsvChange& change, Image& out) {
  kernels().change_hsv(image.pixels.data(), change,
                       static_cast<std::int64_t>(image.width) * image.height, out.pixels.data());
}

}  // namespace

void brightness(const Image& image, const CorruptJob& job, Image& out) {
  constexpr double kAdd[] = {.1, .2, .3, .4, .5};
  change_hsv(image, {1, 0, by_severity(kAdd, job)}, out);
}

void saturate(const Image& image, const CorruptJob& job, Image& out) {
  constexpr HsvChange kChange[] = {{.3, 0, 0}, {.1, 0, 0}, {2, 0, 0}, {5, .1, 0}, {20, .2, 0}};
  change_hsv(image, by_severity(kChange, job), out);
}

void contrast(const Image& image, const CorruptJob& job, Image& out) {
  constexpr double kKeep[] = {.4, .3, .2, .1, .05};
  const double keep = by_severity(kKeep, job);
  std::array<std::uint64_t, 3> sums{};
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    for (std::size_t c = 0; c < 3; ++c) sums[c] += image.pixels[i + c];
  }
  std::array<std::array<std::uint8_t, 256>, 3> table;
  for (std::size_t c = 0; c < 3; ++c) {
    const double mean =
        static_cast<double>(sums[c]) / (255.0 * image.width * static_cast<double>(image.height));
    for (std::size_t k = 0; k < 256; ++k) {
      const double value = (static_cast<double>(k) / 255 - mean) * keep + mean;
      table[c][k] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 1.0) * 255);
    }
  }
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    for (std::size_t c = 0; c < 3; ++c) out.pixels[i + c] = table[c][image.pixels[i + c]];
  }
}

void pixelate(const Image& image, const CorruptJob& job, Image& out) {
  constexpr double kScale[] = {.6, .5, .4, .3, .25};
  const double scale = by_severity(kScale, job);
  const Resampling box(kBoxFilter, Resample::kPillow12);
  CorruptScratch& s = job.scratch;
  resize(view(image), static_cast<int>(image.width * scale), static_cast<int>(image.height * scale),
         box, s.resample, s.small);
  resize(view(s.small), image.width, image.height, box, s.resample, out);
}

void jpeg_compression(const Image& image, const CorruptJob& job, Image& out) {
  constexpr int kQuality[] = {25, 18, 15, 10, 7};
  encode_jpeg(image, by_severity(kQuality, job), job.scratch.encoded);
  decode_image_into(job.scratch.encoded, "an image just encoded", out);
}

}  // namespace dtn::corrupt
