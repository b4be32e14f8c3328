// Sizes of the tiles into which cuBLASLt divides a product.
#pragma once

#include <cstdint>

namespace dtn::cuda {

// Tile of the library's D, whose rows are our columns.
struct Tile {
  int rows = 0, columns = 0;
};

// Returns the tile with the number `number` (cublasLtMatmulTile_t). {0, 0}: the number stands for
// no size, or for none known here.
Tile tile_of(std::uint32_t number);

}  // namespace dtn::cuda
