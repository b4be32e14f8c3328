#include "io/image/orientation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "io/image/image_codecs.h"

namespace dtn {
namespace codec {

ImageInfo Orientation::upright(const ImageInfo& stored) const {
  ImageInfo info = stored;
  if (swapped_) std::swap(info.width, info.height);
  // The reduced pixels of a JPEG begin at its stored corner.
  info.scalable = stored.scalable && (!mirrored_x_ || stored.width % 8 == 0) &&
                  (!mirrored_y_ || stored.height % 8 == 0);
  return info;
}

ImageRegion Orientation::stored_region(const ImageRegion& region, int width, int height) const {
  ImageRegion r = region;
  if (swapped_) {
    std::swap(r.x0, r.y0);
    std::swap(r.x1, r.y1);
  }
  if (mirrored_x_) r = {width - r.x1, r.y0, width - r.x0, r.y1};
  if (mirrored_y_) r = {r.x0, height - r.y1, r.x1, height - r.y0};
  return r;
}

namespace {

// The innermost loop runs over the rows of a block: swapped images are then read in order, and the
// block stays in the cache.
constexpr int kBlockRows = 32;

template <int kChannels>
void copy_pixels(const std::uint8_t* from, std::ptrdiff_t step_x, std::ptrdiff_t step_y,
                 Image& out) {
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(out.width) * kChannels;
  for (int top = 0; top < out.height; top += kBlockRows) {
    const int bottom = std::min(top + kBlockRows, out.height);
    for (int x = 0; x < out.width; ++x) {
      const std::uint8_t* in = from + x * step_x + top * step_y;
      std::uint8_t* to = out.pixels.data() + top * row + static_cast<std::ptrdiff_t>(x) * kChannels;
      for (int y = top; y < bottom; ++y, in += step_y, to += row) std::copy_n(in, kChannels, to);
    }
  }
}

}  // namespace

void Orientation::turn(const Image& stored, Image& upright) const {
  swapped_ ? upright.reshape(stored.height, stored.width, stored.channels)
           : upright.reshape(stored.width, stored.height, stored.channels);
  const std::ptrdiff_t pixel = stored.channels, row = pixel * stored.width;
  const std::uint8_t* from = stored.pixels.data();
  if (mirrored_x_) from += pixel * (stored.width - 1);
  if (mirrored_y_) from += row * (stored.height - 1);
  std::ptrdiff_t step_x = mirrored_x_ ? -pixel : pixel, step_y = mirrored_y_ ? -row : row;
  if (swapped_) std::swap(step_x, step_y);
  stored.channels == 1 ? copy_pixels<1>(from, step_x, step_y, upright)
                       : copy_pixels<3>(from, step_x, step_y, upright);
}

namespace {

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns `size` bytes from `at` on; none if they are not all there.
std::string_view part(std::string_view bytes, std::size_t at, std::size_t size) {
  if (at > bytes.size() || size > bytes.size() - at) return {};
  return bytes.substr(at, size);
}

// Returns the unsigned number of `size` bytes at `at`, or 0 behind the end.
std::uint32_t number(std::string_view bytes, std::size_t at, std::size_t size, bool big_endian) {
  std::uint32_t value = 0;
  const std::string_view digits = part(bytes, at, size);
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t k = big_endian ? i : digits.size() - 1 - i;
    value = value << 8 | static_cast<unsigned char>(digits[k]);
  }
  return value;
}

constexpr std::string_view kExif("Exif\0\0", 6);

// Returns the content of the first segment APP1 with EXIF data of a JPEG (JPEG, annex B).
std::string_view exif_of_jpeg(std::string_view file) {
  for (std::size_t at = 2; part(file, at, 4).size() == 4 && file[at] == '\xFF';) {
    const auto marker = static_cast<unsigned char>(file[at + 1]);
    if (marker == 0xFF) {  // fill byte
      ++at;
    } else if (marker == 0x01 || (0xD0 <= marker && marker <= 0xD7)) {  // without content
      at += 2;
    } else {
      if (marker == 0xD9 || marker == 0xDA) return {};  // end of the file, begin of the pixels
      const std::size_t size = number(file, at + 2, 2, true);
      const std::string_view content = part(file, at + 4, std::max<std::size_t>(size, 2) - 2);
      if (size < 2 || content.size() + 2 != size) return {};
      if (marker == 0xE1 && content.starts_with(kExif)) return content;
      at += 2 + size;
    }
  }
  return {};
}

// Returns the content of the chunk eXIf of a PNG.
std::string_view exif_of_png(std::string_view file) {
  constexpr std::size_t kSignature = 8, kOverhead = 12;
  for (std::size_t at = kSignature; part(file, at, kOverhead).size() == kOverhead;) {
    const std::size_t size = number(file, at, 4, true);
    if (part(file, at + 4, 4) == "eXIf") return part(file, at + 8, size);
    at += kOverhead + size;
  }
  return {};
}

// Returns the content of the chunk EXIF of a WebP. Chunks have even sizes.
std::string_view exif_of_webp(std::string_view file) {
  constexpr std::size_t kHeader = 12, kOverhead = 8;
  for (std::size_t at = kHeader; part(file, at, kOverhead).size() == kOverhead;) {
    const std::size_t size = number(file, at + 4, 4, false);
    if (part(file, at, 4) == "EXIF") return part(file, at + kOverhead, size);
    at += kOverhead + size + size % 2;
  }
  return {};
}

// Returns the tag Orientation of the first directory of EXIF data, which is a TIFF (TIFF 6.0,
// section 2); 1 if there is none.
int orientation_of_tiff(std::string_view tiff) {
  constexpr std::size_t kEntry = 12;
  constexpr std::uint32_t kOrientation = 0x0112, kByte = 1, kShort = 3, kLong = 4;
  const std::string_view order = part(tiff, 0, 2);
  if (order != "II" && order != "MM") return 1;
  const bool big = order == "MM";
  if (number(tiff, 2, 2, big) != 42) return 1;
  const std::size_t begin = number(tiff, 4, 4, big);
  const std::size_t entries = number(tiff, begin, 2, big);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::string_view entry = part(tiff, begin + 2 + i * kEntry, kEntry);
    if (entry.empty()) return 1;
    if (number(entry, 0, 2, big) != kOrientation) continue;
    const std::uint32_t type = number(entry, 2, 2, big);
    const std::size_t size = type == kByte ? 1 : type == kShort ? 2 : type == kLong ? 4 : 0;
    const std::uint32_t value = number(entry, 8, size, big);
    return number(entry, 4, 4, big) == 1 && 1 <= value && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace
}  // namespace codec

int exif_orientation(std::span<const std::byte> bytes) {
  const std::string_view file = codec::text_of(bytes);
  std::string_view exif;
  if (file.starts_with("\xFF\xD8\xFF")) exif = codec::exif_of_jpeg(file);
  if (file.starts_with("\x89PNG")) exif = codec::exif_of_png(file);
  if (file.starts_with("RIFF") && codec::part(file, 8, 4) == "WEBP") {
    exif = codec::exif_of_webp(file);
  }
  if (exif.starts_with(codec::kExif)) exif.remove_prefix(codec::kExif.size());
  return codec::orientation_of_tiff(exif);
}

}  // namespace dtn
