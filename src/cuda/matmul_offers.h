// What cuBLASLt offers for a product, and which offer wastes least of the multiprocessors' work.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/matmul_tiles.h"

namespace dtn::cuda {

struct Offer {
  cublasLtMatmulAlgo_t algorithm{};
  // All that the library says of the algorithm: equal in every process with the same version.
  std::string recipe;
  Tile tile;         // {0, 0} where it is not known
  double waves = 0;  // of blocks, each as many as the device runs at once; 0 where it is not known
};

Offer read_offer(const cublasLtMatmulHeuristicResult_t& result);

// The library's matrix D.
struct ProductSize {
  std::int64_t rows, columns;
};

// What an offer computes over what is asked for: tiles reach beyond the matrix, and multiprocessors
// wait while the last wave of tiles runs. 1 at best; 0 where it is not known.
double work_over_need(const Offer& offer, const ProductSize& size);

// The offer with the least of it, which is the first unless another has at least 5 % less and its
// tiles use an element that they read nearly as often: what small tiles save in work, they lose in
// reading. Products that fill the device not even once are left to the library.
//
// The order of the library rests on more than this, but is made for sizes that are powers of two
// more often than for 432 columns, of which tiles of 128 make 512. A measurement has to say which is
// faster: this is the choice only with DTN_CUDA_PRODUCTS=least-waste, see matmul_table.h.
std::size_t least_wasteful(const std::vector<Offer>& offers, const ProductSize& size);

}  // namespace dtn::cuda
