#include "io/image/stored_png.h"

#include <algorithm>
#include <limits>
#include <span>

#include "dtn/core/check.h"
#include "io/image/png_chunks.h"

namespace dtn {
namespace {

// Returns the rows, each behind its filter type, which is 0: none.
std::vector<std::byte> filtered_rows(const Image& image) {
  const auto stride = static_cast<std::size_t>(image.width) * image.channels;
  const std::span<const std::byte> pixels = std::as_bytes(std::span(image.pixels));
  std::vector<std::byte> rows;
  rows.reserve((stride + 1) * image.height);
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y) {
    const auto row = pixels.subspan(y * stride, stride);
    rows.push_back(std::byte{0});
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

// Wraps bytes as a zlib stream of stored blocks (RFC 1950, and RFC 1951, section 3.2.4).
std::vector<std::byte> stored_stream(std::span<const std::byte> bytes) {
  constexpr std::size_t kMaxBlock = 65535;
  std::vector<std::byte> out{std::byte{0x78}, std::byte{0x01}};
  out.reserve(bytes.size() + bytes.size() / kMaxBlock * 5 + 16);
  const uLong checksum = adler32_z(1, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kMaxBlock);
    out.push_back(std::byte{size == bytes.size()});  // 1: the last block
    for (std::size_t length : {size, kMaxBlock - size}) {
      out.push_back(static_cast<std::byte>(length & 255));
      out.push_back(static_cast<std::byte>(length >> 8));
    }
    out.insert(out.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    bytes = bytes.subspan(size);
  }
  put_big_endian(out, static_cast<std::uint32_t>(checksum));
  return out;
}

}  // namespace

void encode_stored_png(const Image& image, std::vector<std::byte>& out) {
  DTN_CHECK(image.width > 0 && image.height > 0 && (image.channels == 1 || image.channels == 3) &&
                image.pixels.size() ==
                    static_cast<std::size_t>(image.width) * image.height * image.channels,
            "cannot encode an image of ", image.width, " x ", image.height, " x ", image.channels,
            " with ", image.pixels.size(), " bytes");
  DTN_CHECK(image.pixels.size() < std::numeric_limits<std::int32_t>::max() / 2,
            "the image is too large for PNG");
  begin_png(image.width, image.height, image.channels == 1 ? 0 : 2, out);
  put_chunk(out, "IDAT", stored_stream(filtered_rows(image)));
  put_chunk(out, "IEND", {});
}

}  // namespace dtn
