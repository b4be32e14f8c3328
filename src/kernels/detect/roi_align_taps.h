// Bilinear taps of RoIAlign along one axis, for the host and for devices. See roi_align.h for the
// rule. The taps of a bin are the weights of a range of neighbouring cells.
//
// The functions are static, so that the linker never mixes those of different instruction sets.
// They contract products explicitly: a position then has the same bits wherever it is computed.
#pragma once

#include <cmath>
#include <cstdint>

#include "dtn/core/host_device.h"

namespace dtn {

// Cells of one bin, [first, first + count).
struct RoiRange {
  int first, count;
};

// One axis of a RoI. The position of sample k of bin p is low + (p + (k + 1/2) / samples) bin.
struct RoiAxis {
  double low, bin;
  int samples;  // n; 0 for an empty RoI
  int cells;    // H or W
};

// Cell of a sample, and the weight of the next cell. The cell is -1 for a sample that reads 0.
struct RoiPlace {
  int cell;
  double above;
};

// `begin` and `end` are the sides of a box.
DTN_HOST_DEVICE static inline RoiAxis roi_axis(float begin, float end, double scale,
                                               std::int64_t bins, std::int64_t cells) {
  constexpr double kMaxBin = 1 << 20;
  RoiAxis axis{fma(static_cast<double>(begin), scale, -0.5), 0, 0, static_cast<int>(cells)};
  const double high = fma(static_cast<double>(end), scale, -0.5);
  axis.bin = (high - axis.low) / static_cast<double>(bins);
  if (!(0 < axis.bin && axis.bin <= kMaxBin)) return axis;
  axis.samples = static_cast<int>(axis.bin);
  if (static_cast<double>(axis.samples) < axis.bin) ++axis.samples;
  return axis;
}

DTN_HOST_DEVICE static inline RoiPlace roi_place(const RoiAxis& axis, int bin, int sample) {
  double at = fma(bin + (sample + 0.5) / axis.samples, axis.bin, axis.low);
  if (!(at >= -1 && at <= axis.cells)) return {-1, 0};
  if (at < 0) at = 0;
  if (at > axis.cells - 1) at = axis.cells - 1;
  const int cell = static_cast<int>(at);
  return {cell, at - cell};
}

// Returns the cells that a bin reads. The ranges of neighbouring bins share at most two cells, so
// all together have at most max_roi_taps() cells.
DTN_HOST_DEVICE static inline RoiRange roi_range(const RoiAxis& axis, int bin) {
  int k = 0;
  while (k < axis.samples && roi_place(axis, bin, k).cell < 0) ++k;
  if (k == axis.samples) return {0, 0};
  const int first = roi_place(axis, bin, k).cell;
  k = axis.samples - 1;
  while (roi_place(axis, bin, k).cell < 0) --k;
  const RoiPlace last = roi_place(axis, bin, k);
  return {first, last.cell - first + (last.above > 0 ? 2 : 1)};
}

// Writes the weights of the cells of `range` = roi_range(axis, bin).
template <class A>
DTN_HOST_DEVICE static inline void roi_weights(const RoiAxis& axis, int bin, RoiRange range, A* w) {
  for (int i = 0; i < range.count; ++i) w[i] = 0;
  for (int k = 0; k < axis.samples; ++k) {
    const RoiPlace at = roi_place(axis, bin, k);
    if (at.cell < 0) continue;
    w[at.cell - range.first] += static_cast<A>((1 - at.above) / axis.samples);
    if (at.above > 0) w[at.cell - range.first + 1] += static_cast<A>(at.above / axis.samples);
  }
}

// Most taps of all bins of an axis.
DTN_HOST_DEVICE static inline std::int64_t max_roi_taps(std::int64_t bins, std::int64_t cells) {
  return cells + 2 * bins;
}

}  // namespace dtn
