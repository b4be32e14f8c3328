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

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(UpsampleAddForward)
