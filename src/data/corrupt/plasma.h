// Clouds for fog. Private to dtn_data.
#pragma once

#include <cstdint>
#include <vector>

#include "data/corrupt/draws.h"

namespace dtn::corrupt {

inline constexpr int kPlasmaSide = 256;

// `plasma` [256, 256] becomes a fractal surface that wraps around, by the diamond-square algorithm,
// scaled to [0, 1]. Its noise falls by decay^2 from one step to the next.
void draw_plasma(float decay, Draws& draws, std::vector<std::uint32_t>& words,
                 std::vector<float>& plasma);

}  // namespace dtn::corrupt
