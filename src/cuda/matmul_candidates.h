// Algorithms that cuBLASLt offers for a product, and the choice of the one that wastes least work.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dtn::cuda {

// Tile of the library's D, whose rows are our columns.
struct Tile {
  int rows = 0, columns = 0;
};

// Returns the tile with the number `number` (cublasLtMatmulTile_t). {0, 0}: the number stands for
// no size, or for none known here.
Tile tile_of(std::uint32_t number);

struct Candidate {
  cublasLtMatmulAlgo_t algorithm{};
  // All attributes of the algorithm: equal in every process with the same library version.
  std::string recipe;
  Tile tile;  // {0, 0} if unknown
  // Waves of thread blocks; one wave is the blocks that the device runs at once. 0 if unknown.
  double waves = 0;
};

Candidate read_candidate(const cublasLtMatmulHeuristicResult_t& result);

// Size of the library's matrix D.
struct ProductSize {
  std::int64_t rows, columns;
};

// Ratio of the work that a candidate does to the work that the product needs. Tiles reach beyond
// the matrix, and multiprocessors wait while the last wave of tiles runs. 1 is best; 0 if unknown.
double work_over_need(const Candidate& candidate, const ProductSize& size);

// Returns the candidate with the least work_over_need(). This is the first candidate, unless
// another has at least 5 % less and its tiles reuse each element that they read nearly as often:
// small tiles save work but read more. Products that do not fill the device once keep the library's
// choice.
//
// The library's order considers more than this, but it is tuned for powers of two more often than
// for 432 columns, which tiles of 128 round up to 512. Only a measurement can say which is faster,
// so this choice needs DTN_CUDA_PRODUCTS=least-waste, see matmul_table.h.
std::size_t least_padding(const std::vector<Candidate>& candidates, const ProductSize& size);

}  // namespace dtn::cuda
