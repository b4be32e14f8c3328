// How large the tiles are into which cuBLASLt cuts a product.
#pragma once

#include <cstdint>

namespace dtn::cuda {

// Of the library's D, whose rows are our columns.
struct Tile {
  int rows = 0, columns = 0;
};

// Of one of its numbers, cublasLtMatmulTile_t. {0, 0}: not a size, or none known here.
Tile tile_of(std::uint32_t number);

}  // namespace dtn::cuda
