// Decodes Softimage PIC by stb_image. Alpha is dropped; a channel that the file lacks is 255.
#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "dtn/core/check.h"
#include "io/image/byte_reader.h"
#include "io/image/stb.h"

namespace dtn::codec {
namespace {

constexpr std::size_t kMarkAt = 88;  // after the magic, a version and a comment

// A packet holds some channels of a row.
struct PicPacket {
  enum Kind { kPlain, kRuns, kMixed };
  int kind = kPlain;
  std::size_t channels = 0;
};

struct PicHeader {
  int width = 0, height = 0;
};

PicHeader read_pic_header(const Job& job, ByteReader& in) {
  in.skip(kMarkAt);
  const auto mark = in.take(4);
  if (!std::ranges::equal(mark, std::string_view("PICT")))
    fail(job.name, "its PIC header is damaged");
  PicHeader pic;
  pic.width = in.u16_big();
  pic.height = in.u16_big();
  check_size(job, pic.width, pic.height);
  in.skip(8);  // pixel ratio, fields, padding
  return pic;
}

// Reads the list of the packets of each row.
std::vector<PicPacket> read_packets(const Job& job, ByteReader& in) {
  constexpr std::size_t kMaxPackets = 10;  // of stb_image
  std::vector<PicPacket> packets;
  for (bool more = true; more;) {
    more = in.u8() != 0;
    const int bits = in.u8();
    PicPacket packet;
    packet.kind = in.u8();
    const unsigned mask = in.u8();  // red, green, blue, alpha from the highest bit on
    packet.channels = static_cast<std::size_t>(std::popcount(mask));
    packets.push_back(packet);
    if (bits != 8 || packet.kind > PicPacket::kMixed || mask == 0 || (mask & 0x0F) != 0 ||
        packets.size() > kMaxPackets)
      fail(job.name, "its PIC header is damaged or of a kind that is not supported");
  }
  return packets;
}

// Passes the pixels of one packet of a row.
void skip_pixels(const Job& job, const PicPacket& packet, int width, ByteReader& in) {
  if (packet.kind == PicPacket::kPlain) {
    in.skip(static_cast<std::size_t>(width) * packet.channels);
    return;
  }
  constexpr int kLongRun = 128;
  for (int left = width; left > 0;) {
    int count = in.u8();
    std::size_t values = 1;
    if (packet.kind == PicPacket::kMixed) {
      if (count < kLongRun) {
        values = static_cast<std::size_t>(++count);
      } else {
        count = count == kLongRun ? in.u16_big() : count - 127;
      }
    }
    if (count == 0 || count > left) fail(job.name, "damaged PIC: a run has a wrong length");
    in.skip(values * packet.channels);
    left -= count;
  }
}

}  // namespace

ImageInfo pic_info(const Job& job) {
  ByteReader in(job);
  const PicHeader pic = read_pic_header(job, in);
  return {pic.width, pic.height, 3};
}

void pic_decode(const Job& job, Image& out) {
  ByteReader in(job);
  const PicHeader pic = read_pic_header(job, in);
  const std::vector<PicPacket> packets = read_packets(job, in);
  for (int y = 0; y < pic.height; ++y)
    for (const PicPacket& packet : packets) skip_pixels(job, packet, pic.width, in);
  // With 4 channels stb_image does not convert the pixels, which it does even when it has none.
  const StbSamples rgba =
      stb_decode(job, ByteReader(job).take(in.position()), pic.width, pic.height, 4);
  store_image(job, pic.width, pic.height, 3, out, [&](int x, int y, std::uint8_t* to) {
    std::copy_n(&rgba[sample_at(x, y, pic.width, 4)], 3, to);
  });
}

}  // namespace dtn::codec
