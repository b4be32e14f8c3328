// Neighbours of tokens; see gather.h.
#include "kernels/pointwise/gather.h"

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {
namespace {

template <class T>
void neighbours(const NeighboursForward& args) {
  const std::int64_t h = args.grid_h, w = args.grid_w, channels = args.channels;
  const auto bytes = static_cast<std::size_t>(channels) * sizeof(T);
  parallel_for(args.batch * h, [&](std::int64_t row) {
    const std::int64_t b = row / h, i = row % h;
    const T* x = static_cast<const T*>(args.x) + b * h * w * channels;
    T* y = static_cast<T*>(args.y) + row * w * 9 * channels;
    for (std::int64_t j = 0; j < w; ++j) {
      for (std::int64_t k = 0; k < 9; ++k, y += channels) {
        const std::int64_t ny = i + k / 3 - 1, nx = j + k % 3 - 1;
        if (0 <= ny && ny < h && 0 <= nx && nx < w) {
          std::memcpy(y, x + (ny * w + nx) * channels, bytes);
        } else {
          std::memset(y, 0, bytes);
        }
      }
    }
  });
}

template <class T>
void neighbours_backward(const NeighboursBackward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t h = args.grid_h, w = args.grid_w, channels = args.channels;
  parallel_for(args.batch * h, [&](std::int64_t row) {
    const std::int64_t b = row / h, i = row % h;
    const T* dy = static_cast<const T*>(args.dy) + b * h * w * 9 * channels;
    T* dx = static_cast<T*>(args.dx) + row * w * channels;
    for (std::int64_t j = 0; j < w; ++j, dx += channels) {
      const T* from[9];
      int found = 0;
      for (std::int64_t k = 0; k < 9; ++k) {
        const std::int64_t ny = i - k / 3 + 1, nx = j - k % 3 + 1;
        if (0 <= ny && ny < h && 0 <= nx && nx < w) {
          from[found++] = dy + ((ny * w + nx) * 9 + k) * channels;
        }
      }
      for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
        Vec<A> sum{};
        for (int k = 0; k < found; ++k) sum += load_n(from[k] + c, count);
        store_n(dx + c, sum, count);
      });
    }
  });
}

}  // namespace

void run(CpuQueue&, const NeighboursForward& args) {
  for_dtype("NeighboursForward", args.dtype, [&](auto t) { neighbours<decltype(t)>(args); });
}
void run(CpuQueue&, const NeighboursBackward& args) {
  for_dtype("NeighboursBackward", args.dtype,
            [&](auto t) { neighbours_backward<decltype(t)>(args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(NeighboursForward)
DTN_DISPATCH(NeighboursBackward)
