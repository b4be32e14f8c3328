#include "kernels/loss/hard_targets.h"

#include <algorithm>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kRowsPerTask = 16;

template <class T>
void make_hard(const T* z, T* t, std::int64_t classes) {
  std::int64_t best = 0;
  bool has_nan = false;
  for (std::int64_t k = 0; k < classes; ++k) {
    has_nan = has_nan || z[k] != z[k];
    if (z[k] > z[best]) best = k;
  }
  std::fill_n(t, classes, has_nan ? static_cast<T>(__builtin_nan("")) : T(0));
  if (!has_nan && classes > 0) t[best] = 1;
}

}  // namespace

void run(CpuQueue&, const HardTargets& args) {
  for_accumulator_dtype("HardTargets", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_ranges(args.rows, kRowsPerTask, [&](std::int64_t row, std::int64_t end) {
      for (; row < end; ++row) {
        make_hard(static_cast<const T*>(args.logits) + row * args.classes,
                  static_cast<T*>(args.targets) + row * args.classes, args.classes);
      }
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(HardTargets)
