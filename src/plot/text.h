// Text of pictures and pages: escaping, numbers, widths.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dtn::plot {

// Escapes text for SVG and HTML, as content or within double quotes. Control characters, which XML
// cannot hold, and bytes that are not UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

// Returns the number of bytes of the first character of a text that is not empty. 0 if it is not
// UTF-8 of the shortest form, or if it is a surrogate.
std::size_t character_bytes(std::string_view text);

// Formats a coordinate to 1/100 of a pixel in as few characters as possible: "12", "0.5", never
// "-0". Throws Error if it is not finite.
std::string coordinate(double value);

// Formats a number for people with `digits` significant digits: "0.1234", "12300", "1.234e-07"; "-"
// if it is not finite.
std::string readable(double value, int digits = 4);

// Returns the width of a text of that size, in the same unit, for DejaVu Sans, which is wider than
// most fonts.
double text_width(std::string_view text, double size);
// Returns the text, or as much of its beginning as fits, followed by an ellipsis.
std::string fitted(std::string_view text, double size, double width);
// Width of bold text relative to normal text.
inline constexpr double kBoldWidth = 1.1;
// Wraps the text to at most `lines` lines of that width. Breaks at spaces and signs where possible;
// the last line is shortened to fit.
std::vector<std::string> wrapped(std::string_view text, double size, double width,
                                 std::size_t lines);

std::string base64(std::string_view bytes);

}  // namespace dtn::plot
