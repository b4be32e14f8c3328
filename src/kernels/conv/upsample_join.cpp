// Upsampling and joining of tokens, one row of a grid per task; see upsample_join.h.
#include "kernels/conv/upsample_join.h"

#include <algorithm>

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"

namespace dtn::DTN_ISA {
namespace {

// Writes the gradients of the fine tokens of row r of all rows of all samples.
template <class T>
void split_off_fine(const UpsampleJoinBackward& args, std::int64_t r) {
  const std::int64_t width = args.shape.width, f = args.fine_channels;
  const std::int64_t pitch = args.shape.channels + f;
  const T* dy = static_cast<const T*>(args.dy) + r * width * pitch + args.shape.channels;
  T* to = static_cast<T*>(args.dfine) + r * width * f;
  for (std::int64_t j = 0; j < width; ++j) std::copy_n(dy + j * pitch, f, to + j * f);
}

// Writes the gradients of the coarse tokens of row r of all rows of all samples.
template <class T>
void add_up_coarse(const UpsampleJoinBackward& args, std::int64_t r) {
  using A = AccumulatorOf<T>;
  const UpsampleShape& s = args.shape;
  const std::int64_t pitch = s.channels + args.fine_channels;
  const std::int64_t image = r / s.coarse_height, i = r % s.coarse_height;
  const std::int64_t top = UpsampleShape::first(i, s.height, s.coarse_height);
  const std::int64_t bottom = UpsampleShape::first(i + 1, s.height, s.coarse_height);
  const T* dy = static_cast<const T*>(args.dy) + image * s.height * s.width * pitch;
  T* to = static_cast<T*>(args.dcoarse) + r * s.coarse_width * s.channels;
  for (std::int64_t j = 0; j < s.coarse_width; ++j) {
    const std::int64_t left = UpsampleShape::first(j, s.width, s.coarse_width);
    const std::int64_t right = UpsampleShape::first(j + 1, s.width, s.coarse_width);
    for_each_vector<A>(s.channels, [&](std::int64_t c, auto n) {
      Vec<A> sum{};
      for (std::int64_t y = top; y < bottom; ++y) {
        for (std::int64_t x = left; x < right; ++x) {
          sum += load_n(dy + (y * s.width + x) * pitch + c, n);
        }
      }
      store_n(to + j * s.channels + c, sum, n);
    });
  }
}

}  // namespace

void run(CpuQueue&, const UpsampleJoinForward& args) {
  const UpsampleShape& s = args.shape;
  const std::int64_t f = args.fine_channels, pitch = s.channels + f;
  for_dtype("UpsampleJoinForward", s.dtype, [&](auto t) {
    using T = decltype(t);
    for_each_row(s.batch * s.height, s.width * pitch, [&](std::int64_t r) {
      const std::int64_t image = r / s.height, i = r % s.height * s.coarse_height / s.height;
      const T* coarse = static_cast<const T*>(args.coarse) +
                        (image * s.coarse_height + i) * s.coarse_width * s.channels;
      const T* fine = static_cast<const T*>(args.fine) + r * s.width * f;
      T* y = static_cast<T*>(args.y) + r * s.width * pitch;
      for (std::int64_t j = 0; j < s.width; ++j, y += pitch) {
        std::copy_n(coarse + j * s.coarse_width / s.width * s.channels, s.channels, y);
        std::copy_n(fine + j * f, f, y + s.channels);
      }
    });
  });
}

void run(CpuQueue&, const UpsampleJoinBackward& args) {
  const UpsampleShape& s = args.shape;
  const std::int64_t pitch = s.channels + args.fine_channels;
  for_dtype("UpsampleJoinBackward", s.dtype, [&](auto t) {
    using T = decltype(t);
    if (args.dcoarse) {
      for_each_row(s.batch * s.coarse_height, s.width * pitch,
                   [&](std::int64_t r) { add_up_coarse<T>(args, r); });
    }
    if (args.dfine) {
      for_each_row(s.batch * s.height, s.width * pitch,
                   [&](std::int64_t r) { split_off_fine<T>(args, r); });
    }
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(UpsampleJoinForward)
DTN_DISPATCH(UpsampleJoinBackward)
