// Masks as run lengths, as in COCO, and their compressed text.
//
// Pixels are numbered by column, y fastest: pixel (x, y) is number x height + y. The runs count
// pixels that are 0, 1, 0, ... in turn, so the first run is 0 if pixel 0 is set.
//
// The text holds run k minus run k - 2 from the fourth run on, and plain runs before. A number is
// written in groups of 5 bits, the lowest first, as the characters 48 + group, + 32 if more groups
// follow. The sign is bit 4 of the last group.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtn {

// Largest number of pixels of a mask.
inline constexpr std::int64_t kMaxMaskPixels = std::int64_t{1} << 31;

// A mask of height x width pixels.
struct Rle {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint32_t> runs;  // their sum is height * width

  bool operator==(const Rle&) const = default;
};

// Throws DataError for a side below 0, and for more than kMaxMaskPixels pixels.
void check_mask_size(std::int64_t height, std::int64_t width);

// Returns the mask of a compressed text, or of runs, which stay as they are: a run inside may be 0.
// Throws DataError that says what is wrong: a size that check_mask_size() refuses, a character
// out of range, a text that ends inside a number, a negative run, runs of another sum.
Rle rle_of_text(std::int64_t height, std::int64_t width, std::string_view counts);
Rle rle_of_runs(std::int64_t height, std::int64_t width, std::span<const std::int64_t> runs);

// Returns the compressed text, without the size.
std::string rle_text(const Rle& mask);

// Converts from and to bitmaps [height, width], row by row, of 0 and 1. Any value but 0 counts as
// 1.
Rle rle_of_mask(const std::uint8_t* mask, std::int64_t height, std::int64_t width);
void write_mask(const Rle& rle, std::uint8_t* mask);

// Number of pixels that are 1.
std::int64_t mask_area(const Rle& mask);

// Returns the pixels that are in any of the masks, in the fewest runs. The masks have one size;
// there is at least one.
Rle union_of(std::span<const Rle> masks);

// Number of pixels that are in both masks, which have one size.
std::int64_t intersection_area(const Rle& a, const Rle& b);

// A rectangle of whole pixels, with its corner of the smallest x and y.
struct PixelBox {
  std::int64_t x = 0, y = 0, width = 0, height = 0;

  bool operator==(const PixelBox&) const = default;
};

// Returns the bounds of a mask as pycocotools does: the full height if a run goes on in another
// column. Zeros for an empty mask.
PixelBox bounds_of(const Rle& mask);

}  // namespace dtn
