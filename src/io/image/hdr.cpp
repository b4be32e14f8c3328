// Decodes Radiance HDR (RGBE) by stb_image. A value v becomes 8 bits as stb_image does by default,
// without regard to the exposure or the primaries that a file may name:
//     min(255, floor(255 v^(1 / 2.2) + 1 / 2))
#include <algorithm>
#include <charconv>
#include <string_view>

#include "dtn/core/check.h"
#include "io/image/byte_reader.h"
#include "io/image/stb.h"

namespace dtn::codec {
namespace {

struct HdrHeader {
  int width = 0, height = 0;
};

// Returns the next line without its end. stb_image cuts longer lines.
std::string_view take_line(const Job& job, ByteReader& in) {
  constexpr std::size_t kMaxLine = 1022;
  const std::string_view text(reinterpret_cast<const char*>(job.bytes.data()), job.bytes.size());
  const std::size_t at = in.position();
  const std::size_t end = std::min(text.find('\n', at), text.size());
  if (end - at > kMaxLine) fail(job.name, "its HDR header is damaged: a line is too long");
  in.skip(end - at + 1);
  return text.substr(at, end - at);
}

// Takes `name`, blanks and a number from the beginning of `line`. Returns -1 for another text.
std::int64_t take_length(std::string_view& line, std::string_view name) {
  if (!line.starts_with(name)) return -1;
  line.remove_prefix(name.size());
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc()) return -1;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return value;
}

HdrHeader read_hdr_header(const Job& job, ByteReader& in) {
  take_line(job, in);  // the signature
  bool is_rgbe = false;
  for (auto line = take_line(job, in); !line.empty(); line = take_line(job, in)) {
    if (line.front() == '\0') fail(job.name, "its HDR header is damaged");
    is_rgbe = is_rgbe || line == "FORMAT=32-bit_rle_rgbe";
  }
  if (!is_rgbe) fail(job.name, "HDR of another format than 32-bit_rle_rgbe is not supported");
  std::string_view line = take_line(job, in);
  const std::int64_t height = take_length(line, "-Y ");
  const std::int64_t width = take_length(line, " +X ");
  if (height < 0 || width < 0 || !line.empty())
    fail(job.name,
         "HDR with another order of pixels than \"-Y <height> +X <width>\" is not supported");
  check_size(job, width, height);
  return {static_cast<int>(width), static_cast<int>(height)};
}

// Passes the four bytes of each pixel of a run-length encoded row.
void skip_row(const Job& job, int width, ByteReader& in) {
  const auto mark = in.take(2);
  if (mark[0] != 2 || mark[1] != 2 || in.u16_big() != width)
    fail(job.name, "damaged HDR: a row has a wrong length");
  for (int component = 0; component < 4; ++component) {
    for (int left = width; left > 0;) {
      const int head = in.u8();
      constexpr int kMaxValues = 128;
      const int count = head > kMaxValues ? head - kMaxValues : head;
      if (count == 0 || count > left) fail(job.name, "damaged HDR: a run has a wrong length");
      in.skip(static_cast<std::size_t>(head > kMaxValues ? 1 : count));
      left -= count;
    }
  }
}

void skip_flat(const Job& job, const HdrHeader& hdr, ByteReader& in) {
  const auto pixels = in.take(std::size_t{4} * static_cast<std::size_t>(hdr.width) *
                              static_cast<std::size_t>(hdr.height));
  for (std::size_t i = 0; i < pixels.size(); i += 4)
    if (pixels[i] == 1 && pixels[i + 1] == 1 && pixels[i + 2] == 1)
      fail(job.name, "HDR with run lengths of the old kind is not supported; save it as PNG");
}

// stb_image looks at the first pixel to tell run lengths from plain pixels.
bool has_run_lengths(const HdrHeader& hdr, ByteReader in) {
  if (hdr.width < 8 || hdr.width >= 32768) return false;
  const auto first = in.take(3);
  return first[0] == 2 && first[1] == 2 && first[2] < 128;
}

}  // namespace

ImageInfo hdr_info(const Job& job) {
  ByteReader in(job);
  const HdrHeader hdr = read_hdr_header(job, in);
  return {hdr.width, hdr.height, 3};
}

void hdr_decode(const Job& job, Image& out) {
  ByteReader in(job);
  const HdrHeader hdr = read_hdr_header(job, in);
  if (has_run_lengths(hdr, in)) {
    for (int y = 0; y < hdr.height; ++y) skip_row(job, hdr.width, in);
  } else {
    skip_flat(job, hdr, in);
  }
  const StbSamples rgb =
      stb_decode(job, ByteReader(job).take(in.position()), hdr.width, hdr.height, 3);
  store_image(job, hdr.width, hdr.height, 3, out, [&](int x, int y, std::uint8_t* to) {
    std::copy_n(&rgb[sample_at(x, y, hdr.width, 3)], 3, to);
  });
}

}  // namespace dtn::codec
