// Decodes binary PNM: PBM (P4), PGM (P5) and PPM (P6). Samples are scaled from their largest value
// to 255, as in Pillow. Grey of more than 8 bits is scaled to 16 bits, as there, and clipped at
// 255.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "dtn/core/check.h"
#include "io/image/image_codecs.h"

namespace dtn::codec {
namespace {

// Memory that is reused from image to image.
thread_local std::vector<std::uint8_t> sample_memory;

struct Pnm {
  std::int64_t width = 0, height = 0, largest = 1;
  char kind = '6';  // digit of P4, P5, P6
  std::size_t pixels_at = 0;

  int samples() const { return kind == '6' ? 3 : 1; }
  std::int64_t row_bytes() const {
    return kind == '4' ? (width + 7) / 8 : width * samples() * (largest > 255 ? 2 : 1);
  }
};

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Reads the next number of the header and the one blank after it. "#" begins a comment.
std::int64_t take_number(const Job& job, std::string_view text, std::size_t& at) {
  while (at < text.size() && (is_space(text[at]) || text[at] == '#')) {
    if (text[at] == '#') at = std::min(text.find_first_of("\r\n", at), text.size());
    ++at;
  }
  std::int64_t value = 0;
  const char* begin = text.data() + std::min(at, text.size());
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  at = static_cast<std::size_t>(end - text.data());
  if (at >= text.size()) fail(job.name, "the file is cut short");
  if (error != std::errc() || !is_space(text[at++])) fail(job.name, "its PNM header is damaged");
  return value;
}

Pnm read_pnm_header(const Job& job) {
  const std::string_view text(reinterpret_cast<const char*>(job.bytes.data()), job.bytes.size());
  Pnm pnm;
  pnm.kind = text[1];
  pnm.pixels_at = 2;
  pnm.width = take_number(job, text, pnm.pixels_at);
  pnm.height = take_number(job, text, pnm.pixels_at);
  if (pnm.kind != '4') pnm.largest = take_number(job, text, pnm.pixels_at);
  check_size(job, pnm.width, pnm.height);
  if (pnm.largest < 1 || pnm.largest > 65535)
    fail(job.name, cat("its largest sample is ", pnm.largest, ", not 1 to 65535"));
  if (static_cast<std::int64_t>(text.size() - pnm.pixels_at) < pnm.row_bytes() * pnm.height)
    fail(job.name, "the file is cut short");
  return pnm;
}

// Returns a stored value, scaled to Pillow's range.
double scaled_value(const Pnm& pnm, std::int64_t stored) {
  const double most = pnm.kind == '5' && pnm.largest > 255 ? 65535 : 255;
  return std::nearbyint(static_cast<double>(stored) / static_cast<double>(pnm.largest) * most);
}

// Returns the 8-bit value of each stored value. Entries beyond `largest` are 255.
std::vector<std::uint8_t> scaled_values(const Pnm& pnm) {
  std::vector<std::uint8_t> table(pnm.largest > 255 ? 65536 : 256, 255);
  for (std::int64_t i = 0; i <= pnm.largest; ++i) {
    table[static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>(std::min(scaled_value(pnm, i), 255.0));
  }
  return table;
}

}  // namespace

ImageInfo pnm_info(const Job& job) {
  const Pnm pnm = read_pnm_header(job);
  return {static_cast<int>(pnm.width), static_cast<int>(pnm.height), pnm.samples()};
}

void pnm_decode(const Job& job, Image& out) {
  const Pnm pnm = read_pnm_header(job);
  const int samples = pnm.samples();
  const ImageRegion region =
      wanted_region(job, static_cast<int>(pnm.width), static_cast<int>(pnm.height));
  shape_image(out, region, output_channels(job.mode, samples));
  const std::vector<std::uint8_t> scaled =
      pnm.kind == '4' || pnm.largest == 255 ? std::vector<std::uint8_t>() : scaled_values(pnm);
  sample_memory.resize(static_cast<std::size_t>(out.width) * static_cast<std::size_t>(samples));
  const auto* data = reinterpret_cast<const std::uint8_t*>(job.bytes.data()) + pnm.pixels_at;
  int highest = 0;  // 16-bit value
  for (int y = region.y0; y < region.y1; ++y) {
    const std::uint8_t* row = data + y * pnm.row_bytes();
    const std::ptrdiff_t first = std::ptrdiff_t{region.x0} * samples;
    const std::uint8_t* pixels = row + first;
    if (pnm.largest != 255) {
      for (std::size_t i = 0; i < sample_memory.size(); ++i) {
        const std::size_t at = static_cast<std::size_t>(first) + i;
        if (pnm.kind == '4') {  // 1 is black
          sample_memory[i] = (row[at / 8] >> (7 - at % 8) & 1) != 0 ? 0 : 255;
        } else if (pnm.largest <= 255) {
          sample_memory[i] = scaled[row[at]];
        } else {
          const int word = row[2 * at] << 8 | row[2 * at + 1];
          highest = std::max(highest, word);
          sample_memory[i] = scaled[static_cast<std::size_t>(word)];
        }
      }
      pixels = sample_memory.data();
    }
    store_pixels(pixels, samples, out.width, 0, y - region.y0, out);
  }
  if (pnm.kind == '5' && scaled_value(pnm, highest) > 255) warn_of_clipping(job);
}

}  // namespace dtn::codec
