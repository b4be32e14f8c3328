// The library has a name for each tile, such as CUBLASLT_MATMUL_TILE_216x128, but no function that
// returns the size. The numbers enumerate the sizes in an order that a few lines of code reproduce.
#include <array>

#include "cuda/matmul_candidates.h"

namespace dtn::cuda {
namespace {

constexpr std::size_t kKnown = 635;

// First the tiles of the first cards; then sizes whose columns are multiples of 64, and sizes whose
// rows are, up to the capacity of a block's registers; last the tiles of pairs of blocks.
constexpr std::array<Tile, kKnown> all_tiles() {
  constexpr Tile kFirst[] = {{0, 0},     {8, 8},     {8, 16},    {16, 8},   {8, 32},   {16, 16},
                             {32, 8},    {8, 64},    {16, 32},   {32, 16},  {64, 8},   {32, 32},
                             {32, 64},   {64, 32},   {32, 128},  {64, 64},  {128, 32}, {64, 128},
                             {128, 64},  {64, 256},  {128, 128}, {256, 64}, {64, 512}, {128, 256},
                             {256, 128}, {512, 64},  {64, 96},   {96, 64},  {96, 128}, {128, 160},
                             {160, 128}, {192, 128}, {128, 192}, {128, 96}, {32, 256}, {256, 32}};
  constexpr Tile kLast[] = {{256, 512}, {256, 1024}, {512, 512}, {512, 1024}};
  constexpr int kLongest = 768;
  std::array<Tile, kKnown> tiles{};
  bool listed[kLongest / 8 + 1][kLongest / 8 + 1] = {};
  std::size_t count = 0;
  const auto add = [&](const Tile& t) {
    tiles[count++] = t;
    if (t.rows <= kLongest && t.columns <= kLongest) listed[t.rows / 8][t.columns / 8] = true;
  };
  const auto add_multiples = [&](int rows_of, int columns_of, int most) {
    for (int rows = rows_of; rows <= kLongest; rows += rows_of) {
      for (int columns = columns_of; columns <= kLongest; columns += columns_of) {
        if (rows * columns <= most && !listed[rows / 8][columns / 8]) add({rows, columns});
      }
    }
  };
  for (const Tile& t : kFirst) add(t);
  add_multiples(8, 64, 48 << 10);
  add_multiples(64, 8, 64 << 10);
  for (const Tile& t : kLast) add(t);
  return tiles;
}

constexpr std::array<Tile, kKnown> kTiles = all_tiles();

constexpr bool is(std::size_t number, int rows, int columns) {
  return kTiles[number].rows == rows && kTiles[number].columns == columns;
}
static_assert(is(CUBLASLT_MATMUL_TILE_128x256, 128, 256) && is(CUBLASLT_MATMUL_TILE_8x128, 8, 128));
static_assert(is(CUBLASLT_MATMUL_TILE_144x128, 144, 128) &&
              is(CUBLASLT_MATMUL_TILE_216x128, 216, 128));
static_assert(is(CUBLASLT_MATMUL_TILE_432x64, 432, 64) && is(CUBLASLT_MATMUL_TILE_768x64, 768, 64));
static_assert(is(CUBLASLT_MATMUL_TILE_64x16, 64, 16) && is(CUBLASLT_MATMUL_TILE_128x216, 128, 216));
static_assert(is(CUBLASLT_MATMUL_TILE_128x512, 128, 512) &&
              is(CUBLASLT_MATMUL_TILE_768x80, 768, 80));
static_assert(is(CUBLASLT_MATMUL_TILE_512x1024, 512, 1024));

}  // namespace

Tile tile_of(std::uint32_t number) { return number < kKnown ? kTiles[number] : Tile{}; }

}  // namespace dtn::cuda
