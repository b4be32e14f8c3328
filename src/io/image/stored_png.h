// PNG without compression. The bytes depend on the image alone, while those of encode_png() depend
// on the version of zlib, too. Noise loses little: it hardly compresses.
#pragma once

#include <cstddef>
#include <vector>

#include "dtn/io/image.h"

namespace dtn {

// Encodes an image of 1 or 3 channels as PNG, without loss. The file has a few bytes more than the
// pixels. The result replaces `out`.
void encode_stored_png(const Image& image, std::vector<std::byte>& out);

}  // namespace dtn
