// Clouds for fog. Private to dtn_data.
#pragma once

#include <cstdint>
#include <vector>

#include "data/corrupt/draws.h"

namespace dtn::corrupt {

inline constexpr int kPlasmaSide = 256;

// Draws a fractal surface that wraps around, by the diamond-square algorithm, scaled to [0, 1].
// plasma [256, 256]. The noise falls by decay^2 from step to step.
void draw_plasma(float decay, Draws& draws, std::vector<std::uint32_t>& words,
                 std::vector<float>& plasma);

}  // namespace dtn::corrupt
