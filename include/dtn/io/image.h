// Decoding of JPEG, PNG, WebP, GIF, BMP, binary PNM, TGA, PSD, Radiance HDR and Softimage PIC into
// 8-bit pixels. The content of a file decides its format, not its name. The pixels equal those of
// Pillow's `Image.open(f).convert(mode)` bit for bit, but for HDR and PIC, which Pillow does not
// read:
// - JPEG uses the accurate integer DCT with smooth chroma upsampling; CMYK and YCCK are read as
//   inverted, as Adobe stores them;
// - 16-bit grey of PNG and PNM is clipped at 255, with a warning for the first such image; other
//   16-bit samples keep their high byte;
// - alpha is dropped; gamma and colour profiles are ignored;
// - EXIF orientation is ignored unless DecodeOptions::upright is set. Then all sizes, regions and
//   pixels are those of Pillow's `ImageOps.exif_transpose(Image.open(f))`. It is read from JPEG,
//   from the chunk eXIf of PNG, and from WebP; damaged EXIF data counts as none, and XMP is not
//   read;
// - of an animation the first frame counts. Where it does not cover the canvas, a WebP is black,
//   and a GIF has its transparent colour, or its first one;
// - of a PSD the merged image counts, not the layers;
// - HDR values are encoded by a gamma of 2.2, and those above 1 are white.
//
// Files are not trusted: sizes in the header are checked before pixels are allocated, and any error
// in a file is a DataError that names it. Stricter than Pillow: a file too short for the pixels
// that it claims is rejected at once, and PNG data must match the checksums. Compressed BMP and PNM
// in text form are not supported. stb_image decodes GIF, TGA, PSD, HDR and PIC. It refuses a GIF
// that leaves a full code table in use for over 4000 codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtn {

// A decoded image.
struct Image {
  int width = 0, height = 0;
  int channels = 0;                  // 1 (grey) or 3 (RGB)
  std::vector<std::uint8_t> pixels;  // [height, width, channels], rows without padding

  // Gives the image this size. Its pixels are then to be written.
  void reshape(int new_width, int new_height, int new_channels) {
    width = new_width;
    height = new_height;
    channels = new_channels;
    pixels.resize(static_cast<std::size_t>(width) * height * channels);
  }
};

// Channels of a decoded image.
enum class ColorMode {
  kRgb,       // always 3 channels, grey is replicated
  kGray,      // always 1 channel, colour becomes ITU-R 601 luma as in Pillow's mode L
  kAsStored,  // 1 channel if the file is grey, else 3
};

// Limits on an untrusted file, and the orientation. The limits are those of Pillow and libjpeg.
struct DecodeOptions {
  std::int64_t max_pixels = 178'956'970;
  int max_dimension = 65'500;           // of either side
  int max_scans = 500;                  // of a progressive JPEG; each scan costs a full pass
  std::int64_t max_memory = 1ll << 30;  // bytes that a decoder may use besides the pixels
  bool upright = false;                 // turn the image as its EXIF orientation says
};

// The header of an image file.
struct ImageInfo {
  int width = 0, height = 0;
  int channels = 0;  // as with kAsStored
  // True if decode_image_scaled() can reduce it: a JPEG. If the orientation mirrors the stored
  // image, the size of the mirrored sides must be a multiple of 8.
  bool scalable = false;
};

// Columns [x0, x1) of rows [y0, y1).
struct ImageRegion {
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};

// The format of an image file: "jpeg", "png", "webp", "gif", "bmp", "pnm", "tga", "psd", "hdr" or
// "pic"; null for any other file.
const char* image_format(std::span<const std::byte> bytes);

// Reads only the header. `name` names the file in errors.
ImageInfo read_image_info(std::span<const std::byte> bytes, const std::string& name,
                          const DecodeOptions& options = {});

// Decodes the whole image. Throws DataError, which names the file, if it is damaged.
Image decode_image(std::span<const std::byte> bytes, const std::string& name,
                   const DecodeOptions& options = {}, ColorMode mode = ColorMode::kRgb);

// decode_image() into `out`, whose memory is reused.
void decode_image_into(std::span<const std::byte> bytes, const std::string& name, Image& out,
                       const DecodeOptions& options = {}, ColorMode mode = ColorMode::kRgb);

// Decodes only `region`; `out` has its size and equals that part of the whole image. The cost is
// that of the stored rows in and above the region (of all rows for an interlaced PNG, and for the
// formats of stb_image). Damage below the region of a JPEG or WebP is not detected, but a cut file
// is. The region must lie inside the image and not be empty.
void decode_image_region(std::span<const std::byte> bytes, const std::string& name,
                         const ImageRegion& region, Image& out, const DecodeOptions& options = {},
                         ColorMode mode = ColorMode::kRgb);

// The pixels that `region` touches in its image reduced to eighths/8 of its size. Pixel i of the
// reduced image covers the pixels from 8 i / eighths to 8 (i + 1) / eighths.
ImageRegion scaled_region(const ImageRegion& region, int eighths);

// Decodes `region` from the image at eighths/8 of its size (1 to 8; 8 is the full size), which a
// scaled JPEG transform yields with less work. `out` gets the pixels of scaled_region(). Below 8
// the file must be scalable.
void decode_image_scaled(std::span<const std::byte> bytes, const std::string& name,
                         const ImageRegion& region, int eighths, Image& out,
                         const DecodeOptions& options = {}, ColorMode mode = ColorMode::kRgb);

// Returns the EXIF orientation of a file: 1 (as stored) to 8; 1 if it has none.
int exif_orientation(std::span<const std::byte> bytes);

// Converts colour to grey as decoding does, [H, W, 3] -> [H, W, 1].
void rgb_to_gray(const Image& rgb, Image& gray);
// Replicates the grey channel, [H, W, 1] -> [H, W, 3].
void gray_to_rgb(const Image& gray, Image& rgb);

}  // namespace dtn
