// Text on pictures of 8-bit pixels, in a font of 5 x 9 pixels that is enlarged by whole factors.
#pragma once

#include <string>
#include <string_view>

#include "dtn/io/image.h"
#include "plot/color.h"

namespace dtn::plot {

inline constexpr int kGlyphAdvance = 6;  // pixels from one character to the next
inline constexpr int kGlyphHeight = 9;   // pixels: 7 above the baseline, 2 below it

// Returns the width of a text in pixels, without the gap after the last character. `scale` is the
// factor of enlargement, at least 1.
int raster_text_width(std::string_view text, int scale);

// Returns the text, or as much of its beginning as fits into that many pixels, followed by "..". At
// least one character remains.
std::string fitted_raster_text(std::string_view text, int scale, int width);

// Draws a line of UTF-8 text on an image of 3 channels. (x, y) is the upper left pixel; pixels
// outside of the image are skipped. A character other than printable ASCII is drawn as a box, and
// so is a byte that is not UTF-8.
void draw_raster_text(Image& image, int x, int y, std::string_view text, Rgb color, int scale);

}  // namespace dtn::plot
