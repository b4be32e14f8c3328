// Tiles of a map for winograd.h: squares of 4 x 4 places that cover the outputs of a convolution,
// and the squares of 6 x 6 inputs that they see.
#pragma once

#include <algorithm>

#include "kernels/conv/winograd_transforms.h"

namespace dtn::DTN_ISA {

// A map [batch, height, width, channels] of which each tile reads or writes a square. The first
// square begins at (-pad_h, -pad_w).
struct TiledMap {
  std::int64_t height, width, channels;
  std::int64_t pad_h = 0, pad_w = 0;
};

// Tiles in raster order, image after image.
struct TileGrid {
  std::int64_t batch, rows, cols;

  TileGrid(std::int64_t images, std::int64_t out_h, std::int64_t out_w)
      : batch(images),
        rows((out_h + kWinogradOutputs - 1) / kWinogradOutputs),
        cols((out_w + kWinogradOutputs - 1) / kWinogradOutputs) {}
  std::int64_t count() const { return batch * rows * cols; }
};

// The square of one tile: addresses of its places, null outside the map.
template <class T, int kSide>
struct Square {
  T* at[kSide][kSide];

  Square(const TileGrid& grid, const TiledMap& map, std::int64_t tile, T* data) {
    const std::int64_t image = tile / (grid.rows * grid.cols);
    const std::int64_t top = tile / grid.cols % grid.rows * kWinogradOutputs - map.pad_h;
    const std::int64_t left = tile % grid.cols * kWinogradOutputs - map.pad_w;
    T* from = data + image * map.height * map.width * map.channels;
    for (std::int64_t i = 0; i < kSide; ++i) {
      const bool inside = top + i >= 0 && top + i < map.height;
      for (std::int64_t j = 0; j < kSide; ++j) {
        at[i][j] = inside && left + j >= 0 && left + j < map.width
                       ? from + ((top + i) * map.width + left + j) * map.channels
                       : nullptr;
      }
    }
  }

  bool is_inside() const {
    return at[0][0] && at[0][kSide - 1] && at[kSide - 1][0] && at[kSide - 1][kSide - 1];
  }
};

// Places for transformed tiles. Element (point, tile, channel) is at
//    point point_step + tile tile_step + channel / lanes block_step + channel mod lanes
// Rows are filled up with zeros to whole vectors.
template <class A>
struct TransformedTiles {
  A* data;
  std::int64_t point_step, tile_step, block_step;

  A* at(std::int64_t tile, std::int64_t channel) const {
    return data + tile * tile_step + channel / kLanes<A> * block_step;
  }
};

// Transforms the square of a tile, all channels.
template <template <class> class Transform, class T>
void transform_tile(const TileGrid& grid, const TiledMap& map, const T* data, std::int64_t tile,
                    std::int64_t place, const TransformedTiles<T>& to) {
  constexpr int kSide = Transform<T>::kFrom;
  const Square<const T, kSide> square(grid, map, tile, data);
  auto transform = [&](std::int64_t c, auto count, auto read) {
    T* first = to.at(place, c);
    transform_square<T, Transform>([&](int i, int j) { return read(square.at[i][j], c, count); },
                                   [&](int i, int j, Vec<T> v) {
                                     store(first + (i * kWinogradInputs + j) * to.point_step, v);
                                   });
  };
  const auto inside = [](const T* at, std::int64_t c, auto count) { return load_n(at + c, count); };
  const auto any = [](const T* at, std::int64_t c, auto count) {
    return at ? load_n(at + c, count) : Vec<T>{};
  };
  const bool whole = square.is_inside();
  for_each_vector<T>(map.channels, [&](std::int64_t c, auto count) {
    whole ? transform(c, count, inside) : transform(c, count, any);
  });
}

}  // namespace dtn::DTN_ISA
