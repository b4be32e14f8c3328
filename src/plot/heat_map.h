// Maps of numbers as colours. All maps of a figure go into one PNG, however many they are.
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
  bool square_root = false;  // the colour grows with the root of the share of the range

  // 0 .. 1 within the range, beyond outside; NaN for a missing value.
  double position(double value) const;
  Rgb color(double value) const;
};

// The range for values with a sign: as far below 0 as above.
Range about_zero(Range range);

class HeatSheet {
 public:
  explicit HeatSheet(ColorMap map) : map_(map) {}

  // A map of `rows` rows of `columns` values, drawn over the box; missing values leave it clear.
  // All scales of a sheet have its colour map.
  void add(const Box& box, std::span<const double> values, std::int64_t rows, std::int64_t columns,
           const ColorScale& scale);
  // Draws them, below whatever is drawn later.
  void draw(Canvas& canvas, double opacity = 1) const;

 private:
  struct Map {
    Box box;
    std::vector<std::uint8_t> cells;  // colours; 0: missing
    std::int64_t rows, columns;
  };

  ColorMap map_;
  std::vector<Map> maps_;
};

// A bar that says what the colours of a scale mean: the box, ticks below it, the label above.
// `whole` says that values are whole numbers.
void draw_color_bar(Canvas& canvas, const Box& box, const ColorScale& scale,
                    const std::string& label, bool whole = false);

}  // namespace dtn::plot
