// Boxes, masks and names of objects on a picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dtn/io/image.h"
#include "plot/color.h"

namespace dtn::plot {

// A mask that covers the whole picture, in the order of COCO: pixel (x, y) is number
// x height + y, and the runs count pixels that are 0, 1, 0, ... in turn. Its size may differ from
// that of the picture. No runs: no mask.
struct DrawnMask {
  std::int64_t height = 0, width = 0;
  std::span<const std::uint32_t> runs = {};  // their sum is height * width
};

struct DrawnObject {
  float x1 = 0, y1 = 0, x2 = 0, y2 = 0;  // in pixels of the picture
  std::int64_t label = 0;                // chooses the colour
  std::string text = {};                 // of the tab at the box
  std::string number = {};               // after the text, never shortened; both empty: no tab
  float score = 1;                       // an object of a higher score lies on top
  bool dashed = false;                   // frame with gaps
  DrawnMask mask = {};
};

// Returns the colour of a label. Of the first 96 labels no two colours are alike, also for readers
// without red or green receptors; the first seven are Okabe and Ito's. Then they repeat.
inline constexpr std::int64_t kObjectColors = 96;
Rgb object_color(std::int64_t label);

// Returns black or white, the one that is easier to read on that colour.
Rgb ink_on(Rgb color);

// Returns the factor by which draw_objects() enlarges a picture: 1 if a side has 480 pixels.
int drawing_factor(int width, int height);

// Returns the picture [H, W, 1 or 3] with the objects on it, enlarged by drawing_factor(), in 3
// channels. Lines and texts grow with the picture. A mask is a tint of 40 % with a solid edge. A
// tab lies inside the picture and, where possible, on no other tab. A text that is too long for the
// picture is shortened, and many tabs have smaller texts. Boxes that are not finite, and those
// outside of the picture, have neither frame nor tab. Throws Error for an empty picture, and for a
// mask whose runs have another sum.
Image draw_objects(const Image& picture, std::span<const DrawnObject> objects);

}  // namespace dtn::plot
