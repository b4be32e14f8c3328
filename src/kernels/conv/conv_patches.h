// The rows of a convolution as a matrix product. Row (b, n, m) holds the terms of one place of a
// map, tap after tap, and channel after channel within a tap. The rows are built in parts, when a
// tile of the product needs them; see convolution.cpp.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/conv/axis_taps.h"

namespace dtn {

// Patches of the channels [first_channel, first_channel + width) of maps
// [h.sources, w.sources, channels]. An element has `unit` bytes.
struct Patches : GridTaps {
  std::int64_t channels, first_channel, width;
  std::int64_t unit;
  const char* from;

  std::int64_t rows_of_image() const { return h.count * w.count; }
  std::int64_t columns() const { return h.taps * w.taps * width; }

  // Writes rows [row, row + rows) and columns [col, col + cols) to `to` [rows, cols].
  void gather(std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
              char* to) const {
    const std::int64_t line = w.taps * width, place = row % rows_of_image();
    Place at{row / rows_of_image(), place / w.count, place % w.count};
    for (std::int64_t r = 0; r < rows; ++r) {
      std::int64_t u = col / line, begin = col % line;
      for (std::int64_t left = cols; left > 0; ++u, begin = 0) {
        const std::int64_t end = std::min(line, begin + left);
        copy_line(at, u, begin, end, to);
        to += (end - begin) * unit;
        left -= end - begin;
      }
      next(at);
    }
  }

 private:
  struct Place {
    std::int64_t image, n, m;
  };

  void next(Place& at) const {
    if (++at.m < w.count) return;
    at.m = 0;
    if (++at.n < h.count) return;
    at.n = 0;
    ++at.image;
  }

  // Copies elements [begin, end) of row u of the taps.
  void copy_line(const Place& at, std::int64_t u, std::int64_t begin, std::int64_t end,
                 char* to) const {
    const std::int64_t y = h.first_source(at.n) + u;
    if (y < 0 || y >= h.sources) return clear(to, end - begin);
    const std::int64_t row = (at.image * h.sources + y) * w.sources + w.first_source(at.m);
    if (w.all_inside(at.m)) return copy_taps(row, begin, end, to);
    const std::int64_t low = std::clamp(w.begin_of(at.m) * width, begin, end);
    const std::int64_t high = std::clamp(w.end_of(at.m) * width, low, end);
    clear(to, low - begin);
    copy_taps(row, low, high, to + (low - begin) * unit);
    clear(to + (high - begin) * unit, end - high);
  }

  // Copies elements [begin, end) of the taps from source `row` of the map on. All sources are
  // inside.
  void copy_taps(std::int64_t row, std::int64_t begin, std::int64_t end, char* to) const {
    if (width == channels) {  // adjacent taps are one run
      copy(row * channels + begin, end - begin, to);
      return;
    }
    for (std::int64_t k = begin; k < end;) {
      const std::int64_t v = k / width, stop = std::min(end, (v + 1) * width);
      copy((row + v) * channels + first_channel + k - v * width, stop - k, to);
      to += (stop - k) * unit;
      k = stop;
    }
  }

  void copy(std::int64_t first, std::int64_t count, char* to) const {
    std::memcpy(to, from + first * unit, static_cast<std::size_t>(count * unit));
  }
  void clear(char* to, std::int64_t count) const {
    if (count > 0) std::memset(to, 0, static_cast<std::size_t>(count * unit));
  }
};

}  // namespace dtn
