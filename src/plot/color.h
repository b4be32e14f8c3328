// Colours: maps for quantities, and paints that follow the dark mode of a page.
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

// Map for growing quantities. Lightness also grows steadily, so that grey prints read the same.
Rgb viridis(double t);  // t: 0 .. 1, clamped
// Map for quantities with a sign: 0 is blue, 0.5 white and 1 red; both ends are equally dark.
Rgb blue_white_red(double t);

// Paint of a drawn element. A separate picture has the light colour; the style sheet of a page
// (page.h) uses the dark colour in dark mode.
struct Paint {
  const char* name = "ink";
  Rgb light, dark;
};

inline constexpr Paint kInk = {"ink", {0x22, 0x22, 0x22}, {0xe6, 0xe6, 0xe6}};  // text
inline constexpr Paint kSoft = {
    "soft", {0x59, 0x59, 0x59}, {0xb0, 0xb0, 0xb0}};  // small text, axes
inline constexpr Paint kGrid = {"grid", {0xdd, 0xdd, 0xdd}, {0x3c, 0x3f, 0x44}};
inline constexpr Paint kPaper = {"paper", {0xff, 0xff, 0xff}, {0x17, 0x19, 0x1c}};
// Marks on a colour map, the same in light and dark mode.
inline constexpr Paint kWhite = {"white", {0xff, 0xff, 0xff}, {0xff, 0xff, 0xff}};
inline constexpr Paint kBlack = {"black", {0x00, 0x00, 0x00}, {0x00, 0x00, 0x00}};

inline constexpr std::size_t kSeriesPaints = 7;
// Returns the paint of a series: one of seven colours that colour-blind readers can distinguish,
// which then repeat. The hues are Okabe and Ito's. Each has a contrast of at least 3 to the paper.
const Paint& series_paint(std::size_t index);
// Returns all paints above, for the style sheet.
std::span<const Paint> all_paints();

}  // namespace dtn::plot
