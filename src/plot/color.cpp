#include "plot/color.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/format.h"

namespace dtn::plot {
namespace {

constexpr std::array<Rgb, 9> kViridis = {rgb(0x440154), rgb(0x472c7a), rgb(0x3b518b),
                                         rgb(0x2c718e), rgb(0x21908d), rgb(0x27ad81),
                                         rgb(0x5cc863), rgb(0xaadc32), rgb(0xfde725)};
constexpr std::array<Rgb, 5> kBlueWhiteRed = {rgb(0x0b3c8c), rgb(0x6fa3d8), rgb(0xffffff),
                                              rgb(0xe88b70), rgb(0x9c121e)};

// The black of the series comes last, because a single black series would look like an axis.
constexpr std::array<Paint, 13> kPaints = {{{"s0", rgb(0x0060a4), rgb(0x3f97d8)},
                                            {"s1", rgb(0xc48500), rgb(0xf7c85a)},
                                            {"s2", rgb(0x007f5c), rgb(0x2cc498)},
                                            {"s3", rgb(0xcc79a7), rgb(0xe09ac2)},
                                            {"s4", rgb(0x3c99d8), rgb(0xa0dcff)},
                                            {"s5", rgb(0xb54000), rgb(0xf57a2a)},
                                            {"s6", rgb(0x000000), rgb(0xffffff)},
                                            kInk,
                                            kSoft,
                                            kGrid,
                                            kPaper,
                                            kWhite,
                                            kBlack}};
// Interpolates between the two nearest colours, which are at equal distances from 0 to 1.
Rgb interpolate(std::span<const Rgb> colors, double t) {
  const double at = (t > 0 ? std::min(t, 1.0) : 0.0) * static_cast<double>(colors.size() - 1);
  const std::size_t low = std::min(static_cast<std::size_t>(at), colors.size() - 2);
  const double share = at - static_cast<double>(low);
  auto mix = [share](std::uint8_t a, std::uint8_t b) {
    return static_cast<std::uint8_t>(std::lround(a + share * (b - a)));
  };
  const Rgb &a = colors[low], &b = colors[low + 1];
  return {mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)};
}

}  // namespace

std::string hex(Rgb color) { return format("#%02x%02x%02x", color.r, color.g, color.b); }

bool is_dark(Rgb color) { return 0.299 * color.r + 0.587 * color.g + 0.114 * color.b < 105; }

Rgb viridis(double t) { return interpolate(kViridis, t); }

Rgb blue_white_red(double t) { return interpolate(kBlueWhiteRed, t); }

const Paint& series_paint(std::size_t index) { return kPaints[index % kSeriesPaints]; }

std::span<const Paint> all_paints() { return kPaints; }

}  // namespace dtn::plot
