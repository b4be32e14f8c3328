#include "dtn/io/image.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <new>
#include <string_view>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/image/image_codecs.h"
#include "io/image/orientation.h"

namespace dtn {
namespace codec {

void fail(const std::string& name, const std::string& reason) {
  throw DataError(cat("cannot decode the image ", name, ": ", reason));
}

void fail_for_memory(const Job& job) {
  fail(job.name, cat("decoding it needs more than ",
                     bytes_text(static_cast<double>(job.options.max_memory))));
}

void check_size(const Job& job, std::int64_t width, std::int64_t height) {
  if (width <= 0 || height <= 0) fail(job.name, cat("its size is ", width, " x ", height));
  const auto& limits = job.options;
  if (width > limits.max_dimension || height > limits.max_dimension)
    fail(job.name, cat("its size is ", width, " x ", height, "; a side may have at most ",
                       limits.max_dimension, " pixels"));
  if (width * height > limits.max_pixels)
    fail(job.name, cat("it has ", width, " x ", height, " pixels; at most ", limits.max_pixels,
                       " are allowed"));
}

void warn_of_clipping(const Job& job) {
  static std::atomic_flag warned;
  if (warned.test_and_set()) return;
  log_warn(cat(job.name,
               ": 16-bit grey values above 255 are read as white, as in Pillow, here and in other "
               "images; convert them to 8 bits to keep the contrast"));
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
  out.reshape(region.x1 - region.x0, region.y1 - region.y0, channels);
}

void row_rgb_to_gray(const std::uint8_t* in, std::uint8_t* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i, in += 3)
    out[i] = static_cast<std::uint8_t>(
        (in[0] * 19595u + in[1] * 38470u + in[2] * 7471u + 0x8000u) >> 16);
}

void row_gray_to_rgb(const std::uint8_t* in, std::uint8_t* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i, out += 3) out[0] = out[1] = out[2] = in[i];
}

// Converts as Pillow, which takes every CMYK file for Adobe's kind. For the stored values c and k,
// with the product rounded:
//     k - (255 - c) k / 255
void row_cmyk_to_rgb(const std::uint8_t* in, std::uint8_t* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i, in += 4, out += 3) {
    const int white = in[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - in[c]) * white + 128;
      out[c] = static_cast<std::uint8_t>(std::max(0, white - (((product >> 8) + product) >> 8)));
    }
  }
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

struct Codec {
  const char* format;
  std::string_view magic;  // first bytes of a file; '?' is any byte
  ImageInfo (*info)(const Job& job);
  void (*decode)(const Job& job, Image& out);
};
constexpr Codec kCodecs[] = {{"jpeg", "\xFF\xD8\xFF", jpeg_info, jpeg_decode},
                             {"png", "\x89PNG\r\n\x1A\n", png_info, png_decode},
                             {"webp", "RIFF????WEBP", webp_info, webp_decode},
                             {"pnm", "P4", pnm_info, pnm_decode},
                             {"pnm", "P5", pnm_info, pnm_decode},
                             {"pnm", "P6", pnm_info, pnm_decode},
                             {"bmp", "BM", bmp_info, bmp_decode},
                             {"gif", "GIF87a", gif_info, gif_decode},
                             {"gif", "GIF89a", gif_info, gif_decode},
                             {"psd", "8BPS", psd_info, psd_decode},
                             {"pic", "\x53\x80\xF6\x34", pic_info, pic_decode},
                             {"hdr", "#?RADIANCE\n", hdr_info, hdr_decode},
                             {"hdr", "#?RGBE\n", hdr_info, hdr_decode}};
constexpr Codec kTga = {"tga", "", tga_info, tga_decode};

const Codec* find_codec(Bytes file) {
  const auto begins = [file](std::string_view magic) {
    return file.size() >= magic.size() &&
           std::ranges::equal(magic, file.first(magic.size()), [](char m, std::byte b) {
             return m == '?' || m == static_cast<char>(b);
           });
  };
  const auto found = std::ranges::find_if(kCodecs, begins, &Codec::magic);
  if (found != std::end(kCodecs)) return found;
  return is_tga(file) ? &kTga : nullptr;
}

const Codec& codec_of(const Job& job) {
  if (const Codec* codec = find_codec(job.bytes)) return *codec;
  fail(job.name, job.bytes.empty() ? "the file is empty"
                                   : "it is not JPEG, PNG, WebP, GIF, BMP, PNM, TGA, PSD, HDR or "
                                     "PIC; convert or remove it");
}

Orientation orientation_of(const Job& job) {
  return Orientation(job.options.upright ? exif_orientation(job.bytes) : 1);
}

ImageInfo info_of(const Job& job) {
  const ImageInfo stored = codec_of(job).info(job);
  return orientation_of(job).upright(stored);
}

void decode_stored(const Job& job, Image& out) {
  try {
    codec_of(job).decode(job, out);
  } catch (const std::bad_alloc&) {
    fail(job.name, "not enough memory for its pixels");
  }
}

// The region of the job is one of the upright image.
void decode(const Job& job, Image& out) {
  const Orientation orientation = orientation_of(job);
  if (orientation.is_stored()) return decode_stored(job, out);
  thread_local Image stored;  // reused from image to image
  Job turned = job;
  ImageRegion region;
  if (job.region) {
    const ImageInfo info = codec_of(job).info(job);
    region = orientation.stored_region(*job.region, info.width, info.height);
    turned.region = &region;
  }
  decode_stored(turned, stored);
  orientation.turn(stored, out);
}

}  // namespace
}  // namespace codec

const char* image_format(std::span<const std::byte> bytes) {
  const codec::Codec* codec = codec::find_codec(bytes);
  return codec ? codec->format : nullptr;
}

ImageInfo read_image_info(std::span<const std::byte> bytes, const std::string& name,
                          const DecodeOptions& options) {
  const codec::Job job{bytes, name, options};
  return codec::info_of(job);
}

Image decode_image(std::span<const std::byte> bytes, const std::string& name,
                   const DecodeOptions& options, ColorMode mode) {
  Image image;
  decode_image_into(bytes, name, image, options, mode);
  return image;
}

void decode_image_into(std::span<const std::byte> bytes, const std::string& name, Image& out,
                       const DecodeOptions& options, ColorMode mode) {
  codec::decode({bytes, name, options, mode}, out);
}

void decode_image_region(std::span<const std::byte> bytes, const std::string& name,
                         const ImageRegion& region, Image& out, const DecodeOptions& options,
                         ColorMode mode) {
  codec::decode({bytes, name, options, mode, &region}, out);
}

ImageRegion scaled_region(const ImageRegion& r, int eighths) {
  // No overflow: a side has at most a few tens of thousands of pixels.
  return {r.x0 * eighths / 8, r.y0 * eighths / 8, (r.x1 * eighths + 7) / 8,
          (r.y1 * eighths + 7) / 8};
}

void decode_image_scaled(std::span<const std::byte> bytes, const std::string& name,
                         const ImageRegion& region, int eighths, Image& out,
                         const DecodeOptions& options, ColorMode mode) {
  const codec::Job job{bytes, name, options, mode, &region, eighths};
  DTN_CHECK(eighths == 8 || (1 <= eighths && eighths < 8 && codec::info_of(job).scalable),
            "cannot decode ", name, " at ", eighths, "/8 of its size");
  codec::decode(job, out);
}

void rgb_to_gray(const Image& rgb, Image& gray) {
  DTN_CHECK(rgb.channels == 3 && &rgb != &gray, "the image must have 3 channels");
  gray.reshape(rgb.width, rgb.height, 1);
  codec::row_rgb_to_gray(rgb.pixels.data(), gray.pixels.data(), std::ssize(gray.pixels));
}

void gray_to_rgb(const Image& gray, Image& rgb) {
  DTN_CHECK(gray.channels == 1 && &rgb != &gray, "the image must have 1 channel");
  rgb.reshape(gray.width, gray.height, 3);
  codec::row_gray_to_rgb(gray.pixels.data(), rgb.pixels.data(), std::ssize(gray.pixels));
}

}  // namespace dtn
