#include "plot/color.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/format.h"

namespace dtn::plot {
namespace {

constexpr std::array<Rgb, 9> kViridis = {{{0x44, 0x01, 0x54},
                                          {0x47, 0x2c, 0x7a},
                                          {0x3b, 0x51, 0x8b},
                                          {0x2c, 0x71, 0x8e},
                                          {0x21, 0x90, 0x8d},
                                          {0x27, 0xad, 0x81},
                                          {0x5c, 0xc8, 0x63},
                                          {0xaa, 0xdc, 0x32},
                                          {0xfd, 0xe7, 0x25}}};
constexpr std::array<Rgb, 5> kBlueWhiteRed = {{{0x0b, 0x3c, 0x8c},
                                               {0x6f, 0xa3, 0xd8},
                                               {0xff, 0xff, 0xff},
                                               {0xe8, 0x8b, 0x70},
                                               {0x9c, 0x12, 0x1e}}};

// The black of the series comes last, because a single black series would look like an axis.
constexpr std::array<Paint, 13> kPaints = {{
    {"s0", {0x00, 0x60, 0xa4}, {0x3f, 0x97, 0xd8}},
    {"s1", {0xc4, 0x85, 0x00}, {0xf7, 0xc8, 0x5a}},
    {"s2", {0x00, 0x7f, 0x5c}, {0x2c, 0xc4, 0x98}},
    {"s3", {0xcc, 0x79, 0xa7}, {0xe0, 0x9a, 0xc2}},
    {"s4", {0x3c, 0x99, 0xd8}, {0xa0, 0xdc, 0xff}},
    {"s5", {0xb5, 0x40, 0x00}, {0xf5, 0x7a, 0x2a}},
    {"s6", {0x00, 0x00, 0x00}, {0xff, 0xff, 0xff}},
    kInk,
    kSoft,
    kGrid,
    kPaper,
    kWhite,
    kBlack,
}};
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

Rgb viridis(double t) { return interpolate(kViridis, t); }

Rgb blue_white_red(double t) { return interpolate(kBlueWhiteRed, t); }

const Paint& series_paint(std::size_t index) { return kPaints[index % kSeriesPaints]; }

std::span<const Paint> all_paints() { return kPaints; }

}  // namespace dtn::plot
