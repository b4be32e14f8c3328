// Tiles of a matrix product on Eigen, float32 and float64, on the calling thread alone.
#pragma once

#include <string>

#include "kernels/gemm/gemm_tile.h"

namespace dtn::eigen {

// Its name and version.
std::string library();

void multiply(const GemmTile&);

}  // namespace dtn::eigen
