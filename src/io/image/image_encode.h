// Encoding of 8-bit images. The bytes depend on the image, the quality and the version of the
// library (libjpeg-turbo, zlib) alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dtn/io/image.h"

namespace dtn {

// Whose Huffman codes a JPEG has: the standard's, or its own, which take a second pass and fewer
// bytes. The pixels are the same.
enum class HuffmanCodes { kStandard, kOptimized };

// Baseline JPEG of an image of 1 or 3 channels by the accurate transform; colour is stored as YCbCr
// with chroma halved both ways, which are libjpeg's and Pillow's defaults. `quality` is libjpeg's,
// 1 .. 100. The result replaces `out`, whose memory is reused. Error when libjpeg refuses.
void encode_jpeg(const Image& image, int quality, std::vector<std::byte>& out,
                 HuffmanCodes codes = HuffmanCodes::kStandard);

// PNG of an image of 1 or 3 channels, without loss. The result replaces `out`.
void encode_png(const Image& image, std::vector<std::byte>& out);

// PNG of [height, width] indices into a palette of at most 256 colours {red, green, blue}, of which
// the first is transparent instead. The result replaces `out`.
void encode_png(int width, int height, std::span<const std::uint8_t> indices,
                std::span<const std::array<std::uint8_t, 3>> palette, std::vector<std::byte>& out);

}  // namespace dtn
