// Strided copies; see copy.h. If the innermost dimension is contiguous in both arrays, runs are
// copied. If x is contiguous along another dimension, square tiles are transposed in the cache.
#include "kernels/primitive/copy.h"

#include <algorithm>
#include <cstring>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kRun = 1 << 14, kTile = 32;

// Splits a copy into items. An item is a piece of dimension `along`, for one combination of the
// indices of the outer dimensions.
struct Plan {
  int last, along, outer[kMaxDims], outer_count = 0;
  std::int64_t combinations = 1, piece, pieces;

  explicit Plan(const StridedCopy& c) {
    last = along = c.extents.rank - 1;
    if (c.x_strides.step[last] != 1) {
      for (int d = 0; d < last; ++d) {
        if (c.x_strides.step[d] == 1 && c.extents.size[d] > 1) along = d;
      }
    }
    for (int d = 0; d < last; ++d) {
      if (d == along) continue;
      outer[outer_count++] = d;
      combinations *= c.extents.size[d];
    }
    piece = transposed() ? kTile : kRun;
    pieces = (c.extents.size[along] + piece - 1) / piece;
  }
  bool transposed() const { return along != last; }
};

// Copies rows of y that are columns of x.
template <class U>
void copy_tiles(const U* x, std::int64_t x_step, U* y, std::int64_t y_along, std::int64_t y_step,
                std::int64_t count, std::int64_t columns) {
  for (std::int64_t begin = 0; begin < columns; begin += kTile) {
    const std::int64_t end = std::min(begin + kTile, columns);
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = begin; j < end; ++j) y[i * y_along + j * y_step] = x[i + j * x_step];
    }
  }
}

template <class U>
void copy_run(const U* x, std::int64_t x_step, U* y, std::int64_t y_step, std::int64_t count) {
  if (x_step == 1 && y_step == 1) {
    std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(U));
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i * y_step] = x[i * x_step];
  }
}

template <class U>
void copy(const StridedCopy& c) {
  const Plan plan(c);
  const std::int64_t last_size = c.extents.size[plan.last];
  const std::int64_t size = plan.transposed() ? kTile * last_size : std::min(kRun, last_size);
  const std::int64_t grain = size < kRun ? kRun / std::max<std::int64_t>(size, 1) : 1;
  parallel_ranges(plan.combinations * plan.pieces, grain, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t item = from; item < to; ++item) {
      const std::int64_t begin = item % plan.pieces * plan.piece;
      std::int64_t rest = item / plan.pieces, x_at = begin * c.x_strides.step[plan.along],
                   y_at = begin * c.y_strides.step[plan.along];
      for (int k = plan.outer_count - 1; k >= 0; --k) {
        const int d = plan.outer[k];
        const std::int64_t i = rest % c.extents.size[d];
        rest /= c.extents.size[d];
        x_at += i * c.x_strides.step[d];
        y_at += i * c.y_strides.step[d];
      }
      const U* x = static_cast<const U*>(c.x) + x_at;
      U* y = static_cast<U*>(c.y) + y_at;
      const std::int64_t count = std::min(plan.piece, c.extents.size[plan.along] - begin);
      if (plan.transposed()) {
        copy_tiles(x, c.x_strides.step[plan.last], y, c.y_strides.step[plan.along],
                   c.y_strides.step[plan.last], count, last_size);
      } else {
        copy_run(x, c.x_strides.step[plan.last], y, c.y_strides.step[plan.last], count);
      }
    }
  });
}

}  // namespace

void run(CpuQueue&, const StridedCopy& args) {
  switch (size_of(args.dtype)) {
    case 1: return copy<std::uint8_t>(args);
    case 2: return copy<std::uint16_t>(args);
    case 4: return copy<std::uint32_t>(args);
    case 8: return copy<std::uint64_t>(args);
    default: detail::fail_dtype("StridedCopy", args.dtype);
  }
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(StridedCopy)
