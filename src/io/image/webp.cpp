// WebP decoding with libwebp and its fancy upsampling of chroma, as in Pillow. Alpha is dropped.
// For an animation, the first frame is decoded on a black canvas.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "dtn/core/check.h"
#include "io/image/image_codecs.h"

namespace dtn::codec {
namespace {

constexpr std::size_t kRiffOverhead = 8;  // "RIFF" and the size field
constexpr int kLossless = 2;              // WebPBitstreamFeatures::format

// Memory that is reused from image to image.
thread_local std::vector<std::uint8_t> rgb_memory;

const std::uint8_t* data_of(Bytes bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

[[noreturn]] void refuse(const Job& job, VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA: fail(job.name, "the file is cut short");
    case VP8_STATUS_OUT_OF_MEMORY: fail(job.name, "not enough memory for its pixels");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      fail(job.name, "it has a feature that libwebp does not support");
    default: fail(job.name, "damaged WebP");
  }
}

WebPBitstreamFeatures read_features(const Job& job, Bytes bytes) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(data_of(bytes), bytes.size(), &features);
  if (status != VP8_STATUS_OK) refuse(job, status);
  check_size(job, features.width, features.height);
  return features;
}

// Decodes a part of a still image to RGB. Damage below the part is not detected.
void decode_rgb(const Job& job, Bytes bytes, const ImageRegion& part, std::uint8_t* rgb) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    fail(job.name, "the version of libwebp does not match its header");
  config.options.use_cropping = 1;
  config.options.crop_left = part.x0;
  config.options.crop_top = part.y0;
  config.options.crop_width = part.x1 - part.x0;
  config.options.crop_height = part.y1 - part.y0;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = rgb;
  config.output.u.RGBA.stride = 3 * (part.x1 - part.x0);
  config.output.u.RGBA.size =
      static_cast<std::size_t>(config.output.u.RGBA.stride) * (part.y1 - part.y0);
  const VP8StatusCode status = WebPDecode(data_of(bytes), bytes.size(), &config);
  if (status != VP8_STATUS_OK) refuse(job, status);
}

// Copies `region` to (left, top) of the result. libwebp upsamples chroma at a cut as at the image's
// edge. One more pixel is therefore decoded on each side, from even coordinates on.
void decode_part(const Job& job, Bytes bytes, const ImageRegion& region, int left, int top,
                 Image& out) {
  const WebPBitstreamFeatures features = read_features(job, bytes);
  if (region.x1 > features.width || region.y1 > features.height)
    fail(job.name, "damaged WebP: a frame is smaller than its animation declares");
  if (features.format == kLossless &&
      std::int64_t{4} * features.width * features.height > job.options.max_memory)
    fail_for_memory(job);
  const ImageRegion part{std::max(0, region.x0 - 1) & ~1, std::max(0, region.y0 - 1) & ~1,
                         std::min(features.width, region.x1 + 1),
                         std::min(features.height, region.y1 + 1)};
  const std::size_t stride = std::size_t{3} * static_cast<std::size_t>(part.x1 - part.x0);
  rgb_memory.resize(stride * static_cast<std::size_t>(part.y1 - part.y0));
  decode_rgb(job, bytes, part, rgb_memory.data());
  const std::uint8_t* from = rgb_memory.data() + (region.y0 - part.y0) * stride +
                             std::ptrdiff_t{3} * (region.x0 - part.x0);
  for (int y = region.y0; y < region.y1; ++y, from += stride)
    store_pixels(from, 3, region.x1 - region.x0, left, top + y - region.y0, out);
}

void decode_first_frame(const Job& job, const ImageRegion& region, Image& out) {
  const WebPData file{data_of(job.bytes), job.bytes.size()};
  const std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> frames(WebPDemux(&file),
                                                                        WebPDemuxDelete);
  WebPIterator frame{};
  if (!frames || !WebPDemuxGetFrame(frames.get(), 1, &frame))
    fail(job.name, "damaged WebP: its animation has no first frame");
  const std::unique_ptr<WebPIterator, decltype(&WebPDemuxReleaseIterator)> release(
      &frame, WebPDemuxReleaseIterator);
  std::ranges::fill(out.pixels, std::uint8_t{0});
  const int x = frame.x_offset, y = frame.y_offset;
  const ImageRegion seen{std::max(region.x0, x), std::max(region.y0, y),
                         std::min(region.x1, x + frame.width),
                         std::min(region.y1, y + frame.height)};
  if (seen.x0 >= seen.x1 || seen.y0 >= seen.y1) return;
  const Bytes bytes(reinterpret_cast<const std::byte*>(frame.fragment.bytes), frame.fragment.size);
  decode_part(job, bytes, {seen.x0 - x, seen.y0 - y, seen.x1 - x, seen.y1 - y}, seen.x0 - region.x0,
              seen.y0 - region.y0, out);
}

void check_complete(const Job& job) {
  std::uint32_t size = 0;
  std::memcpy(&size, job.bytes.data() + 4, sizeof size);
  if (size > job.bytes.size() - kRiffOverhead) fail(job.name, "the file is cut short");
}

}  // namespace

ImageInfo webp_info(const Job& job) {
  const WebPBitstreamFeatures features = read_features(job, job.bytes);
  return {features.width, features.height, 3};
}

void webp_decode(const Job& job, Image& out) {
  check_complete(job);
  const WebPBitstreamFeatures features = read_features(job, job.bytes);
  const ImageRegion region = wanted_region(job, features.width, features.height);
  shape_image(out, region, output_channels(job.mode, 3));
  if (features.has_animation) {
    decode_first_frame(job, region, out);
  } else {
    decode_part(job, job.bytes, region, 0, 0, out);
  }
}

}  // namespace dtn::codec
