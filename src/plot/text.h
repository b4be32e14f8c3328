// Text of pictures and pages: escaping, numbers, widths.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dtn::plot {

// For SVG and HTML, as content or within double quotes. Control characters, which XML cannot hold,
// and bytes that are no UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

// A coordinate in as few characters as show it to 1/100 of a pixel: "12", "0.5", never "-0".
// Throws Error for what is not finite.
std::string coordinate(double value);

// A number for people, with `digits` significant ones: "0.1234", "12300", "1.234e-07"; "-" when it
// is not finite.
std::string readable(double value, int digits = 4);

// How wide a text of that size comes out, in the same unit: that of DejaVu Sans, wider than most.
double text_width(std::string_view text, double size);
// The text, or as much of its beginning as fits with an ellipsis.
std::string fitted(std::string_view text, double size, double width);
// How much wider bold text is.
inline constexpr double kBoldWidth = 1.1;
// The text in at most `lines` lines of that width, broken at spaces and signs where there are some;
// the last line is fitted.
std::vector<std::string> wrapped(std::string_view text, double size, double width,
                                 std::size_t lines);

std::string base64(std::string_view bytes);

}  // namespace dtn::plot
