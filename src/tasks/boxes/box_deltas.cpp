#include "tasks/boxes/box_deltas.h"

#include <algorithm>
#include <cmath>

namespace dtn {
namespace {

// Centre and size of a box.
struct Centred {
  double x, y, w, h;
  explicit Centred(const Box& box)
      : x((static_cast<double>(box.x1) + box.x2) / 2),
        y((static_cast<double>(box.y1) + box.y2) / 2),
        w(static_cast<double>(box.x2) - box.x1),
        h(static_cast<double>(box.y2) - box.y1) {}
};

}  // namespace

BoxDeltas encode_box(const Box& anchor, const Box& box, const DeltaUnits& units) {
  const Centred a(anchor), g(box);
  return {static_cast<float>((g.x - a.x) / a.w / units[0]),
          static_cast<float>((g.y - a.y) / a.h / units[1]),
          static_cast<float>(std::log(g.w / a.w) / units[2]),
          static_cast<float>(std::log(g.h / a.h) / units[3])};
}

Box decode_box(const Box& anchor, const BoxDeltas& deltas, const DeltaUnits& units) {
  static const double kMost = std::log(1000.0 / 16);
  const Centred a(anchor);
  const double x = a.x + a.w * (deltas[0] * units[0]), y = a.y + a.h * (deltas[1] * units[1]);
  const double w = a.w * std::exp(std::clamp(deltas[2] * units[2], -kMost, kMost));
  const double h = a.h * std::exp(std::clamp(deltas[3] * units[3], -kMost, kMost));
  return {static_cast<float>(x - w / 2), static_cast<float>(y - h / 2),
          static_cast<float>(x + w / 2), static_cast<float>(y + h / 2)};
}

}  // namespace dtn
