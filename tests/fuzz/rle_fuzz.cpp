// Compressed masks and polygons. The first two bytes are the size of a mask. The rest is its text,
// and the coordinates of a polygon. Any result other than a mask of that size, or a DataError, is a
// bug.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "data/coco/polygon.h"
#include "data/coco/rle.h"
#include "dtn/core/check.h"

namespace {

// Checks that runs and bitmap are the same mask.
void check_mask(const dtn::Rle& mask) {
  const auto pixels = static_cast<std::size_t>(mask.height * mask.width);
  std::vector<std::uint8_t> bitmap(pixels + 1);
  dtn::write_mask(mask, bitmap.data());
  const dtn::Rle fewest = dtn::rle_of_mask(bitmap.data(), mask.height, mask.width);
  if (dtn::union_of({&mask, 1}) != fewest) std::abort();
  if (dtn::mask_area(fewest) != dtn::mask_area(mask)) std::abort();
  if (dtn::intersection_area(mask, fewest) != dtn::mask_area(mask)) std::abort();
  if (dtn::bounds_of(fewest) != dtn::bounds_of(mask)) std::abort();
  if (dtn::rle_of_text(mask.height, mask.width, dtn::rle_text(mask)) != mask) std::abort();
}

void check_text(std::int64_t height, std::int64_t width, std::string_view text) {
  check_mask(dtn::rle_of_text(height, width, text));
}

// Takes coordinates as single bytes around the image, or as doubles of any kind.
void check_polygon(std::int64_t height, std::int64_t width, std::string_view text) {
  std::vector<std::vector<double>> polygons(2);
  for (const char c : text) polygons[0].push_back(static_cast<signed char>(c) * 0.75);
  if (polygons[0].size() % 2 != 0) polygons[0].pop_back();
  check_mask(dtn::rasterize(std::span(polygons).first(1), height, width));
  for (std::size_t at = 0; at + sizeof(double) <= text.size(); at += sizeof(double)) {
    std::memcpy(&polygons[1].emplace_back(), text.data() + at, sizeof(double));
  }
  check_mask(dtn::rasterize(polygons, height, width));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  for (const auto check : {check_text, check_polygon}) {
    try {
      check(data[0], data[1], text);
    } catch (const dtn::DataError&) {
    }
  }
  return 0;
}
