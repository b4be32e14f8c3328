// Feeds hostile GIF, TGA, PSD, HDR and PIC files to the decoders that end in stb_image. A target of
// its own, because stb_image is not made for hostile files. fuzz_image covers all formats.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dtn/core/check.h"
#include "fuzz/decode_checks.h"

namespace {

bool is_read_by_stb(const char* format) {
  if (!format) return false;
  for (const std::string_view known : {"gif", "tga", "psd", "hdr", "pic"})
    if (known == format) return true;
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (!is_read_by_stb(dtn::image_format(bytes))) return 0;
  try {
    dtn::fuzz::check_decoding(bytes, static_cast<std::uint32_t>(size) * 2654435761u >> 8);
  } catch (const dtn::DataError&) {
  }
  return 0;
}
