// PNG by stb_image. Its author advises against feeding it hostile files, so the chunks are walked
// and their checksums verified first, every palette is made whole, and its allocations are capped.
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "dtn/core/check.h"
#include "io/image_codecs.h"

namespace {

// The largest single allocation stb_image may make in this thread. It holds a handful at a time.
thread_local std::size_t allocation_cap = 0;

void* capped_malloc(std::size_t size) {
  return size > allocation_cap ? nullptr : std::malloc(size);
}
void* capped_realloc(void* old, std::size_t size) {
  return size > allocation_cap ? nullptr : std::realloc(old, size);
}

}  // namespace

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_MALLOC(size) capped_malloc(size)
#define STBI_REALLOC(old, size) capped_realloc(old, size)
#define STBI_FREE(old) std::free(old)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace dtn::codec {
namespace {

constexpr std::size_t kSignatureSize = 8;
constexpr std::size_t kChunkOverhead = 12;  // length, type, checksum
constexpr int kPalette = 3;                 // colour types of the format
constexpr int kGray = 0, kGrayAlpha = 4;

struct Png {
  std::int64_t width = 0, height = 0;
  int depth = 0;  // bits per sample
  int color_type = 0;
  std::size_t palette_at = 0, palette_size = 0;  // the PLTE chunk: its offset, its bytes of colours
  std::size_t end = 0;                           // of the IEND chunk

  int samples() const {
    return color_type == 2 ? 3 : color_type == 6 ? 4 : color_type == kGrayAlpha ? 2 : 1;
  }
};

std::uint32_t read_u32(const std::byte* p) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(p[i]);
  return value;
}

void write_u32(std::byte* p, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<std::byte>(value >> (24 - 8 * i));
}

struct Chunk {
  std::size_t at = 0;  // offset in the file
  std::uint32_t size = 0;
  const std::byte* data = nullptr;
  bool is(const char* type) const { return std::memcmp(data - 4, type, 4) == 0; }
  bool critical() const { return (std::to_integer<int>(data[-4]) & 0x20) == 0; }
};

Chunk read_chunk(const Job& job, std::size_t at) {
  if (job.bytes.size() < at + kChunkOverhead) fail(job.name, "the file is cut short");
  Chunk chunk{at, read_u32(job.bytes.data() + at), job.bytes.data() + at + 8};
  if (chunk.size > job.bytes.size() - at - kChunkOverhead) fail(job.name, "the file is cut short");
  return chunk;
}

void verify_checksum(const Job& job, const Chunk& chunk) {
  const auto* from = reinterpret_cast<const Bytef*>(chunk.data - 4);
  if (crc32_z(crc32(0, nullptr, 0), from, chunk.size + std::size_t{4}) !=
      read_u32(chunk.data + chunk.size))
    fail(job.name, cat("the chunk at byte ", chunk.at, " does not match its checksum"));
}

// Critical chunks are those a reader must understand.
void check_critical(const Job& job, const Chunk& chunk, bool first) {
  verify_checksum(job, chunk);
  if (chunk.is("IHDR") != first ||
      !(first || chunk.is("PLTE") || chunk.is("IDAT") || chunk.is("IEND")))
    fail(job.name, cat("the chunk at byte ", chunk.at, " is not known or out of place"));
}

Png read_png_header(const Job& job) {
  const Chunk chunk = read_chunk(job, kSignatureSize);
  if (!chunk.is("IHDR") || chunk.size != 13) fail(job.name, "it does not begin with a PNG header");
  verify_checksum(job, chunk);
  Png png;
  png.width = read_u32(chunk.data);
  png.height = read_u32(chunk.data + 4);
  png.depth = std::to_integer<int>(chunk.data[8]);
  png.color_type = std::to_integer<int>(chunk.data[9]);
  check_size(job, png.width, png.height);
  const int type = png.color_type, depth = png.depth;
  const bool depth_known =
      depth == 8 || (depth == 16 && type != kPalette) ||
      ((depth == 1 || depth == 2 || depth == 4) && (type == kGray || type == kPalette));
  const bool type_known =
      type == kGray || type == 2 || type == kPalette || type == kGrayAlpha || type == 6;
  if (!type_known || !depth_known)
    fail(job.name, cat("colour type ", type, " with ", depth, " bits is not PNG"));
  // Deflate shrinks by a factor of 1032 at most.
  const std::int64_t raw = png.width * png.height * png.samples() * depth / 8;
  if (raw / 1032 > static_cast<std::int64_t>(job.bytes.size()))
    fail(job.name, cat("the file is cut short: ", job.bytes.size(), " bytes for ", png.width, " x ",
                       png.height, " pixels"));
  return png;
}

// Walks all chunks to the end mark.
Png read_chunks(const Job& job) {
  Png png = read_png_header(job);
  std::size_t at = kSignatureSize;
  while (png.end == 0) {
    const Chunk chunk = read_chunk(job, at);
    if (chunk.critical()) check_critical(job, chunk, at == kSignatureSize);
    at += kChunkOverhead + chunk.size;
    if (chunk.is("IEND")) png.end = at;
    if (chunk.is("PLTE")) {
      if (png.palette_at != 0) fail(job.name, "it has two palettes");
      png.palette_at = chunk.at;
      png.palette_size = chunk.size;
    }
  }
  if (png.color_type == kPalette && (png.palette_at == 0 || png.palette_size > 768))
    fail(job.name, "it has no valid palette");
  return png;
}

// The file with its palette filled up to 256 colours, so that no index is outside: with the grey of
// the index, as in Pillow.
void fill_palette(const Job& job, const Png& png, std::vector<std::byte>& file) {
  const std::size_t old_end = png.palette_at + kChunkOverhead + png.palette_size;
  file.clear();
  file.reserve(png.end + 768);
  const auto begin = job.bytes.begin();
  const auto add = [&](std::size_t from, std::size_t to) {
    file.insert(file.end(), begin + static_cast<std::ptrdiff_t>(from),
                begin + static_cast<std::ptrdiff_t>(to));
  };
  add(0, old_end - 4);
  write_u32(&file[png.palette_at], 768);
  for (std::size_t i = png.palette_size; i < 768; ++i)
    file.push_back(static_cast<std::byte>(i / 3));
  file.resize(file.size() + 4);  // stb_image does not look at the checksum
  add(old_end, png.end);
}

struct FreePixels {
  void operator()(void* p) const { std::free(p); }
};

}  // namespace

ImageInfo png_info(const Job& job) {
  const Png png = read_png_header(job);
  const bool gray = png.color_type == kGray || png.color_type == kGrayAlpha;
  return {static_cast<int>(png.width), static_cast<int>(png.height), gray ? 1 : 3};
}

void png_decode(const Job& job, Image& out) {
  const Png png = read_chunks(job);
  const int width = static_cast<int>(png.width), height = static_cast<int>(png.height);
  const ImageRegion region = wanted_region(job, width, height);
  thread_local std::vector<std::byte> patched;  // its memory serves image after image
  Bytes file = job.bytes.first(png.end);
  if (png.color_type == kPalette && png.palette_size < 768) {
    fill_palette(job, png, patched);
    file = patched;
  }
  if (file.size() > INT32_MAX) fail(job.name, "files over 2 GiB are not read");
  const auto pixels = static_cast<std::size_t>(png.width * png.height);
  allocation_cap = std::max(8 * pixels, 2 * file.size()) + (std::size_t{1} << 16);
  if (allocation_cap > static_cast<std::size_t>(job.limits.max_memory) + 4 * pixels)
    allocation_cap = static_cast<std::size_t>(job.limits.max_memory) + 4 * pixels;

  int w = 0, h = 0, samples = 0;
  const auto* data = reinterpret_cast<const stbi_uc*>(file.data());
  const int size = static_cast<int>(file.size());
  const bool clip = png.depth == 16 && png.color_type == kGray;
  const std::unique_ptr<void, FreePixels> raw(
      clip ? static_cast<void*>(stbi_load_16_from_memory(data, size, &w, &h, &samples, 0))
           : static_cast<void*>(stbi_load_from_memory(data, size, &w, &h, &samples, 0)));
  if (!raw) fail(job.name, cat("damaged PNG (", stbi_failure_reason(), ")"));
  DTN_CHECK(w == width && h == height, "two readings of the header of ", job.name, " differ");
  auto* bytes = static_cast<std::uint8_t*>(raw.get());
  if (clip) {  // Pillow clips 16-bit grey and keeps the high byte of everything else
    const auto* words = static_cast<const std::uint16_t*>(raw.get());
    for (std::size_t i = 0; i < pixels * static_cast<std::size_t>(samples); ++i)
      bytes[i] = static_cast<std::uint8_t>(std::min<int>(words[i], 255));  // in place
  }
  store_region(job, bytes, width, samples, region, out);
}

}  // namespace dtn::codec
