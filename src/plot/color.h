// Colours: maps for quantities, and paints that follow a page into its dark dress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dtn::plot {

struct Rgb {
  std::uint8_t r = 0, g = 0, b = 0;
  bool operator==(const Rgb&) const = default;
};

// "#0072b2"
std::string hex(Rgb color);

// For quantities that grow; lightness does too, steadily, so that grey prints read the same.
Rgb viridis(double t);  // t: 0 .. 1, clamped
// For quantities with a sign; 0.5 is white, 0 blue and 1 red, equally dark.
Rgb blue_white_red(double t);

// What something is painted with. In a picture of its own it has the light colour; the style sheet
// of a page (page.h) gives it the dark one where the reader likes it dark.
struct Paint {
  const char* name = "ink";
  Rgb light, dark;
};

inline constexpr Paint kInk = {"ink", {0x22, 0x22, 0x22}, {0xe6, 0xe6, 0xe6}};  // text
inline constexpr Paint kSoft = {
    "soft", {0x59, 0x59, 0x59}, {0xb0, 0xb0, 0xb0}};  // small text, axes
inline constexpr Paint kGrid = {"grid", {0xdd, 0xdd, 0xdd}, {0x3c, 0x3f, 0x44}};
inline constexpr Paint kPaper = {"paper", {0xff, 0xff, 0xff}, {0x17, 0x19, 0x1c}};
// Marks upon a map of colours, the same by day and night.
inline constexpr Paint kWhite = {"white", {0xff, 0xff, 0xff}, {0xff, 0xff, 0xff}};
inline constexpr Paint kBlack = {"black", {0x00, 0x00, 0x00}, {0x00, 0x00, 0x00}};

// The paint of a series: seven colours that the colour-blind tell apart (Okabe and Ito), which
// repeat after that.
const Paint& series_paint(std::size_t index);
// All of the above, for the style sheet.
std::span<const Paint> all_paints();

}  // namespace dtn::plot
