// Tiles of a matrix product on Eigen, float32 and float64, on the calling thread only.
#pragma once

#include <string>

#include "kernels/gemm/gemm_tile.h"

namespace dtn::eigen {

// Returns the name and version of the library.
std::string library();

void multiply(const GemmTile&);

}  // namespace dtn::eigen
