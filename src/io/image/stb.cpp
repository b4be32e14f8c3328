// The one place that compiles stb_image, without its readers of other formats, of files and of
// animations.
#include "io/image/stb.h"

#include <climits>
#include <cstdlib>

#include "dtn/core/check.h"

namespace dtn::codec {
namespace {

// Bytes that stb_image may still request for the image that this thread decodes.
thread_local std::int64_t stb_memory_left = 0;

// Memory is zeroed, so that a byte which stb_image forgets to write shows nothing of another image.
void* stb_allocate(std::size_t size) {
  stb_memory_left -= static_cast<std::int64_t>(size);
  return stb_memory_left < 0 ? nullptr : std::calloc(size, 1);
}

}  // namespace
}  // namespace dtn::codec

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_GIF
#define STBI_ONLY_HDR
#define STBI_ONLY_PIC
#define STBI_ONLY_PSD
#define STBI_ONLY_TGA
#define STBI_NO_LINEAR
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS (1 << 20)
#define STBI_MALLOC(size) dtn::codec::stb_allocate(size)
#define STBI_REALLOC(memory, size) nullptr  // only for animations, of which none is decoded
#define STBI_FREE(memory) std::free(memory)
#include <stb/stb_image.h>

namespace dtn::codec {

void StbRelease::operator()(std::uint8_t* samples) const { stbi_image_free(samples); }

StbSamples stb_decode(const Job& job, std::span<const std::uint8_t> file, int width, int height,
                      int channels) {
  if (file.size() > INT_MAX) fail(job.name, "it has 2 GiB or more; save it as PNG");
  stb_memory_left = job.options.max_memory;
  int stb_width = 0, stb_height = 0, stored = 0;
  StbSamples samples(stbi_load_from_memory(file.data(), static_cast<int>(file.size()), &stb_width,
                                           &stb_height, &stored, channels));
  if (!samples && stb_memory_left < 0) fail_for_memory(job);
  if (!samples)
    fail(job.name, cat("stb_image cannot decode it (", stbi_failure_reason(),
                       "); save it as PNG or remove it"));
  DTN_CHECK(stb_width == width && stb_height == height, "stb_image decoded ", job.name, " to ",
            stb_width, " x ", stb_height, " pixels in place of ", width, " x ", height);
  return samples;
}

Palette grey_palette() {
  Palette palette;
  for (std::size_t i = 0; i < palette.size(); ++i) palette[i].fill(static_cast<std::uint8_t>(i));
  return palette;
}

}  // namespace dtn::codec
