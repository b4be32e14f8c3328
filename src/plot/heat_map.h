// Maps of numbers as colours. All maps of a figure go into one PNG.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plot/axis.h"
#include "plot/canvas.h"

namespace dtn::plot {

enum class ColorMap { kViridis, kBlueWhiteRed };

struct ColorScale {
  Range range = {};
  ColorMap map = ColorMap::kViridis;
  bool square_root = false;  // colour position is the square root of the position in the range

  // Returns 0 .. 1 within the range, less or more outside it; NaN for a missing value.
  double position(double value) const;
  Rgb color(double value) const;
};

class HeatSheet {
 public:
  explicit HeatSheet(ColorMap map) : map_(map) {}

  // Adds a map of `rows` rows of `columns` values, drawn over the box; missing values stay
  // transparent. All scales of a sheet use the sheet's colour map.
  void add(const Box& box, std::span<const double> values, std::int64_t rows, std::int64_t columns,
           const ColorScale& scale);
  // Draws the maps, below everything that is drawn later.
  void draw(Canvas& canvas, double opacity = 1) const;

 private:
  struct Map {
    Box box;
    std::vector<std::uint8_t> cells;  // colour indices; 0: missing
    std::int64_t rows, columns;
  };

  ColorMap map_;
  std::vector<Map> maps_;
};

// Draws a bar that explains the colours of a scale: the box, ticks below it, the label above.
// `whole`: values are whole numbers.
void draw_color_bar(Canvas& canvas, const Box& box, const ColorScale& scale,
                    const std::string& label, bool whole = false);

}  // namespace dtn::plot
