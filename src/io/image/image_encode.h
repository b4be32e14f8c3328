// Encodes 8-bit images. The bytes depend only on the image, the options and the version of the
// library (libjpeg-turbo, zlib).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dtn/io/image.h"

namespace dtn {

// Huffman codes of a JPEG: those of the standard, or codes optimized for the image. Optimized codes
// need a second pass and give a smaller file with the same pixels.
enum class HuffmanCodes { kStandard, kOptimized };

// Encodes an image of 1 or 3 channels as baseline JPEG with the accurate transform. Colour is
// stored as YCbCr with chroma halved both ways, the default of libjpeg and Pillow. `quality` is
// libjpeg's, 1 to 100. An orientation other than 1 is written as EXIF data, see exif_orientation().
// The result replaces `out`, whose memory is reused. Throws Error if libjpeg fails.
void encode_jpeg(const Image& image, int quality, std::vector<std::byte>& out,
                 HuffmanCodes codes = HuffmanCodes::kStandard, int orientation = 1);

// Encodes an image of 1 or 3 channels as PNG, without loss. The result replaces `out`.
void encode_png(const Image& image, std::vector<std::byte>& out);

// Encodes [height, width] indices into a palette of at most 256 colours {red, green, blue} as PNG.
// The first colour is made transparent. The result replaces `out`.
void encode_png(int width, int height, std::span<const std::uint8_t> indices,
                std::span<const std::array<std::uint8_t, 3>> palette, std::vector<std::byte>& out);

}  // namespace dtn
