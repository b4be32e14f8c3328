// Decodes the merged image of a PSD (not its layers): grey, duotone as grey, indexed, RGB and CMYK
// of 8 or 16 bits, plain or run-length encoded. Alpha and other extra channels are dropped, and 16
// bits are cut to the high byte. Pillow reads 8 bits alike.
//
// stb_image decodes a plain PSD that has the colour channels alone and is called RGB, with a column
// for each byte of a sample: it knows only RGB, would change colours by the fourth channel, and
// would decode run lengths of 16-bit samples as if they had 8.
#include <algorithm>
#include <vector>

#include "dtn/core/check.h"
#include "io/image/byte_reader.h"
#include "io/image/stb.h"

namespace dtn::codec {
namespace {

enum PsdMode { kGreyMode = 1, kIndexedMode = 2, kRgbMode = 3, kCmykMode = 4, kDuotoneMode = 8 };

struct Psd {
  int width = 0, height = 0;
  int channels = 0;  // stored, with alpha and masks
  int mode = kRgbMode;
  int sample_bytes = 1;  // 2 for 16 bits
  bool run_lengths = false;
  Palette palette{};

  int colors() const { return mode == kRgbMode ? 3 : mode == kCmykMode ? 4 : 1; }
  int samples() const { return mode == kGreyMode || mode == kDuotoneMode ? 1 : 3; }
  int row_bytes() const { return width * sample_bytes; }
};

// Reads the fields of fixed size.
Psd read_psd_header(const Job& job, ByteReader& in) {
  in.skip(4);  // the signature
  const int version = in.u16_big();
  if (version != 1) fail(job.name, "large documents (PSB) are not supported; save it as PNG");
  in.skip(6);  // reserved
  Psd psd;
  psd.channels = in.u16_big();
  const std::int64_t height = in.u32_big(), width = in.u32_big();
  const int depth = in.u16_big();
  psd.mode = in.u16_big();
  check_size(job, width, height);
  psd.width = static_cast<int>(width);
  psd.height = static_cast<int>(height);
  psd.sample_bytes = depth / 8;
  const bool is_known = psd.mode == kGreyMode || psd.mode == kIndexedMode || psd.mode == kRgbMode ||
                        psd.mode == kCmykMode || psd.mode == kDuotoneMode;
  if (!is_known || !(depth == 8 || (depth == 16 && psd.mode != kIndexedMode)))
    fail(job.name, cat("PSD of colour mode ", psd.mode, " and ", depth,
                       " bits is not supported; save it as RGB of 8 bits or as PNG"));
  if (psd.channels < psd.colors() || psd.channels > 56)
    fail(job.name, cat("damaged PSD: ", psd.channels, " channels in colour mode ", psd.mode));
  return psd;
}

// Reads the sections between the header and the pixels.
void read_sections(const Job& job, ByteReader& in, Psd& psd) {
  const auto color_data = in.take(in.u32_big());
  if (psd.mode == kIndexedMode) {
    if (color_data.size() != 3 * psd.palette.size())
      fail(job.name, cat("damaged PSD: its palette has ", color_data.size(), " bytes, not 768"));
    for (std::size_t i = 0; i < color_data.size(); ++i)
      psd.palette[i % psd.palette.size()][i / psd.palette.size()] = color_data[i];
  }
  in.skip(in.u32_big());  // resources
  in.skip(in.u32_big());  // layers
  const int compression = in.u16_big();
  if (compression > 1) fail(job.name, "PSD with ZIP compression is not supported; save it as PNG");
  psd.run_lengths = compression == 1;
}

// Returns the packets that make up a row, without padding.
std::span<const std::uint8_t> checked_packets(const Job& job, const Psd& psd,
                                              std::span<const std::uint8_t> row) {
  std::size_t at = 0;
  int left = psd.row_bytes();
  while (left > 0) {
    if (at == row.size()) break;
    const int head = row[at++];
    constexpr int kNothing = 128;
    if (head == kNothing) continue;
    left -= head < kNothing ? head + 1 : 257 - head;
    at += static_cast<std::size_t>(head < kNothing ? head + 1 : 1);
    if (at > row.size()) break;
  }
  if (left != 0 || at > row.size()) fail(job.name, "damaged PSD: a row has a wrong length");
  return row.first(at);
}

void append_big(std::vector<std::uint8_t>& file, std::uint32_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) file.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

using Channel = std::vector<std::uint8_t>;  // stored bytes of one channel

// Returns the colour channels. The others must be there as well.
std::vector<Channel> read_channels(const Job& job, const Psd& psd, ByteReader& in) {
  const auto height = static_cast<std::size_t>(psd.height);
  const auto rows = height * static_cast<std::size_t>(psd.channels);
  ByteReader lengths = in;
  in.skip(psd.run_lengths ? 2 * rows : 0);
  std::vector<Channel> channels(static_cast<std::size_t>(psd.colors()));
  for (std::size_t i = 0; i < rows; ++i) {
    const int size = psd.run_lengths ? lengths.u16_big() : psd.row_bytes();
    auto row = in.take(static_cast<std::size_t>(size));
    if (i / height >= channels.size()) continue;
    if (psd.run_lengths) row = checked_packets(job, psd, row);
    channels[i / height].insert(channels[i / height].end(), row.begin(), row.end());
  }
  return channels;
}

std::vector<std::uint8_t> plain_psd(const Psd& psd, std::span<const Channel> channels) {
  std::vector<std::uint8_t> file = {'8', 'B', 'P', 'S', 0, 1, 0, 0, 0, 0, 0, 0};
  append_big(file, static_cast<std::uint32_t>(channels.size()), 2);
  append_big(file, static_cast<std::uint32_t>(psd.height), 4);
  append_big(file, static_cast<std::uint32_t>(psd.row_bytes()), 4);
  append_big(file, 8, 2);  // bits
  append_big(file, kRgbMode, 2);
  file.resize(file.size() + 12);  // three empty sections
  append_big(file, psd.run_lengths ? 1 : 0, 2);
  const std::size_t rows = channels.size() * static_cast<std::size_t>(psd.height);
  if (psd.run_lengths) file.resize(file.size() + 2 * rows);  // lengths, which stb_image passes
  for (const Channel& channel : channels) file.insert(file.end(), channel.begin(), channel.end());
  return file;
}

// Returns samples [height, row_bytes, 4], of which the channels are the first.
StbSamples decode_channels(const Job& job, const Psd& psd, std::span<const Channel> channels) {
  return stb_decode(job, plain_psd(psd, channels), psd.row_bytes(), psd.height, 4);
}

// Writes a pixel from its first three samples, and its fourth in CMYK.
void write_pixel(const Psd& psd, const std::uint8_t* colors, std::uint8_t black, std::uint8_t* to) {
  if (psd.mode == kCmykMode) {
    const std::uint8_t cmyk[] = {colors[0], colors[1], colors[2], black};
    row_cmyk_to_rgb(cmyk, to, 1);
  } else if (psd.mode == kIndexedMode) {
    std::ranges::copy(psd.palette[*colors], to);
  } else {
    std::copy_n(colors, psd.samples(), to);
  }
}

}  // namespace

ImageInfo psd_info(const Job& job) {
  ByteReader in(job);
  const Psd psd = read_psd_header(job, in);
  return {psd.width, psd.height, psd.samples()};
}

void psd_decode(const Job& job, Image& out) {
  ByteReader in(job);
  Psd psd = read_psd_header(job, in);
  read_sections(job, in, psd);
  const std::vector<Channel> channels = read_channels(job, psd, in);
  const std::size_t first = std::min<std::size_t>(channels.size(), 3);
  const StbSamples colors = decode_channels(job, psd, std::span(channels).first(first));
  StbSamples black;
  if (psd.mode == kCmykMode) black = decode_channels(job, psd, std::span(channels).last(1));
  store_image(job, psd.width, psd.height, psd.samples(), out, [&](int x, int y, std::uint8_t* to) {
    const std::size_t at = sample_at(x * psd.sample_bytes, y, psd.row_bytes(), 4);
    write_pixel(psd, &colors[at], black ? black[at] : 0, to);
  });
}

}  // namespace dtn::codec
