// Brightness, saturation, contrast, coarse pixels and JPEG.
#include <algorithm>
#include <array>
#include <cmath>

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

// Weights of Pillow's box filter from `from` to `to` < from pixels; 22-bit fixed point, resample.h.
struct BoxAxis {
  struct Span {
    int begin = 0, count = 0;
  };
  std::vector<Span> spans;            // [to]
  std::vector<std::int32_t> weights;  // [to, taps]
  int taps = 0;
};

constexpr int kWeightBits = 22;

BoxAxis box_axis(int from, int to) {
  BoxAxis axis;
  const double scale = static_cast<double>(from) / to, support = 0.5 * scale;
  axis.taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  axis.weights.assign(static_cast<std::size_t>(to) * axis.taps, 0);
  for (int i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const int begin = std::max(0, static_cast<int>(std::trunc(center - support + 0.5)));
    const int end = std::min(from, static_cast<int>(std::trunc(center + support + 0.5)));
    const auto covers = [&](int x) {
      const double at = (x - center + 0.5) * (1 / scale);
      return -0.5 < at && at <= 0.5 ? 1.0 : 0.0;
    };
    double sum = 0;
    for (int x = begin; x < end; ++x) sum += covers(x);
    for (int x = begin; x < end; ++x) {
      axis.weights[static_cast<std::size_t>(i) * axis.taps + (x - begin)] =
          static_cast<std::int32_t>(std::trunc(0.5 + covers(x) / sum * (1 << kWeightBits)));
    }
    axis.spans.push_back({begin, end - begin});
  }
  return axis;
}

// in [lines, from, channels] -> out [lines, to, channels]
void shrink(const std::uint8_t* in, int lines, int from, int channels, const BoxAxis& axis,
            std::uint8_t* out) {
  for (int line = 0; line < lines; ++line, in += static_cast<std::ptrdiff_t>(from) * channels) {
    for (std::size_t i = 0; i < axis.spans.size(); ++i) {
      const std::int32_t* weights = &axis.weights[i * static_cast<std::size_t>(axis.taps)];
      const std::uint8_t* first = in + static_cast<std::ptrdiff_t>(axis.spans[i].begin) * channels;
      for (int c = 0; c < channels; ++c) {
        std::int32_t sum = 1 << (kWeightBits - 1);
        for (int k = 0; k < axis.spans[i].count; ++k) sum += first[k * channels + c] * weights[k];
        *out++ = static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
      }
    }
  }
}

// Returns the source of pixel i: enlarging with a box takes the pixel that contains the centre.
int nearest(int i, int from, int to) {
  return static_cast<int>((i + 0.5) * (static_cast<double>(from) / to));
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
  const int width = static_cast<int>(image.width * scale);
  const int height = static_cast<int>(image.height * scale);
  CorruptScratch& s = job.scratch;
  s.marks.resize(static_cast<std::size_t>(image.height) * width * 3);
  s.bytes.resize(static_cast<std::size_t>(height) * width * 3);
  shrink(image.pixels.data(), image.height, image.width, 3, box_axis(image.width, width),
         s.marks.data());
  // Shrinks the columns: the image is one line of pixels with 3 width channels each.
  shrink(s.marks.data(), 1, image.height, 3 * width, box_axis(image.height, height),
         s.bytes.data());
  std::uint8_t* to = out.pixels.data();
  for (int y = 0; y < image.height; ++y) {
    const std::uint8_t* row =
        &s.bytes[static_cast<std::size_t>(nearest(y, height, image.height)) * width * 3];
    for (int x = 0; x < image.width; ++x) {
      const std::uint8_t* from = row + std::ptrdiff_t{3} * nearest(x, width, image.width);
      for (int c = 0; c < 3; ++c) *to++ = from[c];
    }
  }
}

void jpeg_compression(const Image& image, const CorruptJob& job, Image& out) {
  constexpr int kQuality[] = {25, 18, 15, 10, 7};
  encode_jpeg(image, by_severity(kQuality, job), job.scratch.encoded);
  decode_image_into(job.scratch.encoded, "an image just encoded", out);
}

}  // namespace dtn::corrupt
