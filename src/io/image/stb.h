// Decoding with stb_image, for the formats that no other library here reads. Private to dtn_io.
//
// stb_image is not made for hostile files. It takes zeros for missing bytes, and the version of
// 2022 has known faults: a cut HDR hangs it (CVE-2021-42715), and a cut PIC makes it read a null
// pointer (CVE-2023-43898). A caller therefore checks first that a file is complete, and passes a
// file whose header it wrote, or checked to the last byte. The faults in animations, in flipping,
// and in JPEG, PNG and PNM are in code that is not called.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/image/image_codecs.h"

namespace dtn::codec {

// Releases memory of stb_image.
struct StbRelease {
  void operator()(std::uint8_t* samples) const;
};
// Samples [height, width, channels].
using StbSamples = std::unique_ptr<std::uint8_t[], StbRelease>;

// Decodes `file`, of width x height pixels, into `channels` samples per pixel: 1 (grey), 3 (RGB) or
// 4 (RGBA). stb_image may allocate at most job.options.max_memory bytes.
StbSamples stb_decode(const Job& job, std::span<const std::uint8_t> file, int width, int height,
                      int channels);

// RGB of the 256 indices. Entries that a file does not set are black, as in Pillow 13.
using Palette = std::array<std::array<std::uint8_t, 3>, 256>;

// Returns the palette whose entry i is the grey i.
Palette grey_palette();

// Returns the index of the first sample of pixel (x, y).
inline std::size_t sample_at(int x, int y, int width, int channels) {
  return static_cast<std::size_t>((std::int64_t{y} * width + x) * channels);
}

// Fills `out` with the region of the job. write_pixel(x, y, to) writes the `samples` (1 or 3) bytes
// of a pixel.
template <class WritePixel>
void store_image(const Job& job, int width, int height, int samples, Image& out,
                 const WritePixel& write_pixel) {
  const ImageRegion region = wanted_region(job, width, height);
  shape_image(out, region, output_channels(job.mode, samples));
  std::vector<std::uint8_t> row(static_cast<std::size_t>(samples) * out.width);
  for (int y = region.y0; y < region.y1; ++y) {
    std::uint8_t* to = row.data();
    for (int x = region.x0; x < region.x1; ++x, to += samples) write_pixel(x, y, to);
    store_pixels(row.data(), samples, out.width, 0, y - region.y0, out);
  }
}

}  // namespace dtn::codec
