// Encoding of 8-bit images. The bytes depend on the image, the quality and the version of the
// library (libjpeg-turbo, zlib) alone.
#pragma once

#include <cstddef>
#include <vector>

#include "dtn/io/image.h"

namespace dtn {

// Baseline JPEG of an image of 1 or 3 channels; colour is stored as YCbCr with chroma halved both
// ways, which are libjpeg's and Pillow's defaults. `quality` is libjpeg's, 1 .. 100. The result
// replaces `out`, whose memory is reused. Error when libjpeg refuses.
void encode_jpeg(const Image& image, int quality, std::vector<std::byte>& out);

// PNG of an image of 1 or 3 channels, without loss. The result replaces `out`.
void encode_png(const Image& image, std::vector<std::byte>& out);

}  // namespace dtn
