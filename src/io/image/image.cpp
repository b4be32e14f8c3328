#include "dtn/io/image.h"

#include <cstring>
#include <new>

#include "dtn/core/check.h"
#include "io/image/image_codecs.h"

namespace dtn {
namespace codec {

void fail(const std::string& name, const std::string& reason) {
  throw DataError(cat("cannot decode the image ", name, ": ", reason));
}

void check_size(const Job& job, std::int64_t width, std::int64_t height) {
  if (width <= 0 || height <= 0) fail(job.name, cat("its size is ", width, " x ", height));
  const auto& limits = job.limits;
  if (width > limits.max_dimension || height > limits.max_dimension)
    fail(job.name, cat("its size is ", width, " x ", height, "; a side may have at most ",
                       limits.max_dimension, " pixels"));
  if (width * height > limits.max_pixels)
    fail(job.name, cat("it has ", width, " x ", height, " pixels; at most ", limits.max_pixels,
                       " are allowed"));
}

ImageRegion wanted_region(const Job& job, int width, int height) {
  if (!job.region) return {0, 0, width, height};
  const ImageRegion& r = *job.region;
  DTN_CHECK(0 <= r.x0 && r.x0 < r.x1 && r.x1 <= width && 0 <= r.y0 && r.y0 < r.y1 && r.y1 <= height,
            "region (", r.x0, ", ", r.y0, ", ", r.x1, ", ", r.y1, ") is not inside ", job.name,
            " of ", width, " x ", height, " pixels");
  return r;
}

void shape_image(Image& out, const ImageRegion& region, int channels) {
  out.width = region.x1 - region.x0;
  out.height = region.y1 - region.y0;
  out.channels = channels;
  out.pixels.resize(static_cast<std::size_t>(out.width) * out.height * channels);
}

void row_rgb_to_gray(const std::uint8_t* in, std::uint8_t* out, int n) {
  for (int i = 0; i < n; ++i, in += 3)
    out[i] = static_cast<std::uint8_t>(
        (in[0] * 19595u + in[1] * 38470u + in[2] * 7471u + 0x8000u) >> 16);
}

void row_gray_to_rgb(const std::uint8_t* in, std::uint8_t* out, int n) {
  for (int i = 0; i < n; ++i, out += 3) out[0] = out[1] = out[2] = in[i];
}

void store_pixels(const std::uint8_t* pixels, int samples, int count, int left, int row,
                  Image& out) {
  const std::size_t at = static_cast<std::size_t>(row) * out.width + static_cast<std::size_t>(left);
  std::uint8_t* to = out.pixels.data() + at * static_cast<std::size_t>(out.channels);
  if (samples == out.channels) {
    std::memcpy(to, pixels, static_cast<std::size_t>(count) * samples);
  } else if (samples == 1) {
    row_gray_to_rgb(pixels, to, count);
  } else {
    row_rgb_to_gray(pixels, to, count);
  }
}

namespace {

enum class Format { kJpeg, kPng, kWebp, kPnm, kBmp };

bool starts_with(Bytes bytes, const char* magic, std::size_t size) {
  return bytes.size() >= size && std::memcmp(bytes.data(), magic, size) == 0;
}

Format recognise(const Job& job) {
  if (starts_with(job.bytes, "\xFF\xD8\xFF", 3)) return Format::kJpeg;
  if (starts_with(job.bytes, "\x89PNG\r\n\x1A\n", 8)) return Format::kPng;
  if (job.bytes.size() >= 12 && starts_with(job.bytes, "RIFF", 4) &&
      starts_with(job.bytes.subspan(8), "WEBP", 4))
    return Format::kWebp;
  for (const char* magic : {"P4", "P5", "P6"})
    if (starts_with(job.bytes, magic, 2)) return Format::kPnm;
  if (starts_with(job.bytes, "BM", 2)) return Format::kBmp;
  fail(job.name, job.bytes.empty() ? "the file is empty"
                                   : "it is not JPEG, PNG, WebP, BMP or PNM; convert or remove it");
}

void decode(const Job& job, Image& out) {
  try {
    switch (recognise(job)) {
      case Format::kJpeg: return jpeg_decode(job, out);
      case Format::kPng: return png_decode(job, out);
      case Format::kWebp: return webp_decode(job, out);
      case Format::kPnm: return pnm_decode(job, out);
      case Format::kBmp: return bmp_decode(job, out);
    }
  } catch (const std::bad_alloc&) {
    fail(job.name, "not enough memory for its pixels");
  }
}

}  // namespace
}  // namespace codec

ImageInfo read_image_info(std::span<const std::byte> bytes, const std::string& name,
                          const DecodeLimits& limits) {
  const codec::Job job{bytes, name, limits};
  switch (codec::recognise(job)) {
    case codec::Format::kJpeg: return codec::jpeg_info(job);
    case codec::Format::kPng: return codec::png_info(job);
    case codec::Format::kWebp: return codec::webp_info(job);
    case codec::Format::kPnm: return codec::pnm_info(job);
    case codec::Format::kBmp: break;
  }
  return codec::bmp_info(job);
}

Image decode_image(std::span<const std::byte> bytes, const std::string& name,
                   const DecodeLimits& limits, ColorMode mode) {
  Image image;
  decode_image_into(bytes, name, image, limits, mode);
  return image;
}

void decode_image_into(std::span<const std::byte> bytes, const std::string& name, Image& out,
                       const DecodeLimits& limits, ColorMode mode) {
  codec::decode({bytes, name, limits, mode}, out);
}

void decode_image_region(std::span<const std::byte> bytes, const std::string& name,
                         const ImageRegion& region, Image& out, const DecodeLimits& limits,
                         ColorMode mode) {
  codec::decode({bytes, name, limits, mode, &region}, out);
}

ImageRegion scaled_region(const ImageRegion& r, int eighths) {
  // No overflow: a side has at most a few tens of thousands of pixels.
  return {r.x0 * eighths / 8, r.y0 * eighths / 8, (r.x1 * eighths + 7) / 8,
          (r.y1 * eighths + 7) / 8};
}

void decode_image_scaled(std::span<const std::byte> bytes, const std::string& name,
                         const ImageRegion& region, int eighths, Image& out,
                         const DecodeLimits& limits, ColorMode mode) {
  const codec::Job job{bytes, name, limits, mode, &region, eighths};
  DTN_CHECK(eighths == 8 ||
                (1 <= eighths && eighths < 8 && codec::recognise(job) == codec::Format::kJpeg),
            "cannot decode ", name, " at ", eighths, "/8 of its size");
  codec::decode(job, out);
}

void rgb_to_gray(const Image& rgb, Image& gray) {
  DTN_CHECK(rgb.channels == 3 && &rgb != &gray, "the image must have 3 channels");
  codec::shape_image(gray, {0, 0, rgb.width, rgb.height}, 1);
  for (int y = 0; y < rgb.height; ++y) {
    const std::size_t row = static_cast<std::size_t>(y) * rgb.width;
    codec::row_rgb_to_gray(rgb.pixels.data() + 3 * row, gray.pixels.data() + row, rgb.width);
  }
}

void gray_to_rgb(const Image& gray, Image& rgb) {
  DTN_CHECK(gray.channels == 1 && &rgb != &gray, "the image must have 1 channel");
  codec::shape_image(rgb, {0, 0, gray.width, gray.height}, 3);
  for (int y = 0; y < gray.height; ++y) {
    const std::size_t row = static_cast<std::size_t>(y) * gray.width;
    codec::row_gray_to_rgb(gray.pixels.data() + row, rgb.pixels.data() + 3 * row, gray.width);
  }
}

}  // namespace dtn
