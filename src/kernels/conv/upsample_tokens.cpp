// Upsampling of tokens on vectors of channels, one row of a grid per task; see upsample_tokens.h.
#include "kernels/conv/upsample_tokens.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"

namespace dtn::DTN_ISA {

void run(CpuQueue&, const UpsampleAddForward& args) {
  const UpsampleShape& s = args.shape;
  const std::int64_t row = s.width * s.channels;
  for_dtype("UpsampleAddForward", s.dtype, [&](auto t) {
    using T = decltype(t);
    for_each_row(s.batch * s.height, row, [&](std::int64_t r) {
      const std::int64_t image = r / s.height, i = r % s.height * s.coarse_height / s.height;
      const T* fine = static_cast<const T*>(args.fine) + r * row;
      const T* coarse = static_cast<const T*>(args.coarse) +
                        (image * s.coarse_height + i) * s.coarse_width * s.channels;
      T* y = static_cast<T*>(args.y) + r * row;
      for (std::int64_t j = 0; j < s.width; ++j) {
        const T* add = coarse + j * s.coarse_width / s.width * s.channels;
        const std::int64_t at = j * s.channels;
        for_each_vector<AccumulatorOf<T>>(s.channels, [&](std::int64_t c, auto n) {
          store_n(y + at + c, load_n(fine + at + c, n) + load_n(add + c, n), n);
        });
      }
    });
  });
}

void run(CpuQueue&, const UpsampleAddBackward& args) {
  const UpsampleShape& s = args.shape;
  for_dtype("UpsampleAddBackward", s.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    for_each_row(s.batch * s.coarse_height, s.width * s.channels, [&](std::int64_t r) {
      const std::int64_t image = r / s.coarse_height, i = r % s.coarse_height;
      const std::int64_t top = UpsampleShape::first(i, s.height, s.coarse_height);
      const std::int64_t bottom = UpsampleShape::first(i + 1, s.height, s.coarse_height);
      const T* dy = static_cast<const T*>(args.dy) + image * s.height * s.width * s.channels;
      T* dcoarse = static_cast<T*>(args.dcoarse) + r * s.coarse_width * s.channels;
      for (std::int64_t j = 0; j < s.coarse_width; ++j) {
        const std::int64_t left = UpsampleShape::first(j, s.width, s.coarse_width);
        const std::int64_t right = UpsampleShape::first(j + 1, s.width, s.coarse_width);
        for_each_vector<A>(s.channels, [&](std::int64_t c, auto n) {
          Vec<A> sum{};
          for (std::int64_t y = top; y < bottom; ++y) {
            for (std::int64_t x = left; x < right; ++x) {
              sum += load_n(dy + (y * s.width + x) * s.channels + c, n);
            }
          }
          store_n(dcoarse + j * s.channels + c, sum, n);
        });
      }
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(UpsampleAddForward)
DTN_DISPATCH(UpsampleAddBackward)
