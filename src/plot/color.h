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

// rgb(0x0072b2)
constexpr Rgb rgb(std::uint32_t hex) {
  return {static_cast<std::uint8_t>(hex >> 16), static_cast<std::uint8_t>(hex >> 8),
          static_cast<std::uint8_t>(hex)};
}
// "#0072b2"
std::string hex(Rgb color);
// True if white text is easier to read on this colour than black text.
bool is_dark(Rgb color);

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

inline constexpr Paint kInk = {"ink", rgb(0x222222), rgb(0xe6e6e6)};    // text
inline constexpr Paint kSoft = {"soft", rgb(0x595959), rgb(0xb0b0b0)};  // small text, axes
inline constexpr Paint kGrid = {"grid", rgb(0xdddddd), rgb(0x3c3f44)};
inline constexpr Paint kPaper = {"paper", rgb(0xffffff), rgb(0x17191c)};
// Marks on a colour map, the same in light and dark mode.
inline constexpr Paint kWhite = {"white", rgb(0xffffff), rgb(0xffffff)};
inline constexpr Paint kBlack = {"black", rgb(0x000000), rgb(0x000000)};

inline constexpr std::size_t kSeriesPaints = 7;
// Returns the paint of a series: one of seven colours that colour-blind readers can distinguish,
// which then repeat. The hues are Okabe and Ito's. Each has a contrast of at least 3 to the paper.
const Paint& series_paint(std::size_t index);
// Returns all paints above, for the style sheet.
std::span<const Paint> all_paints();

}  // namespace dtn::plot
