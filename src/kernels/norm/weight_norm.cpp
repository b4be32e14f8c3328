// Weight normalisation by rows; see weight_norm.h for the formulas.
#include "kernels/norm/weight_norm.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {
namespace {

template <class T>
T length_of_row(const T* v, std::int64_t columns) {
  Vec<T> squares{};
  for_each_vector<T>(columns, [&](std::int64_t c, auto count) {
    const Vec<T> x = load_n(v + c, count);
    squares = squares + x * x;
  });
  return std::sqrt(reduce_add(squares));
}

template <class T>
void weight_norm_backward_row(const WeightNormBackward& args, std::int64_t row) {
  const T sum = static_cast<const T*>(args.sums)[row];
  const T inverse = static_cast<const T*>(args.inverse_length)[row];
  if (args.dgain) static_cast<T*>(args.dgain)[row] += sum * inverse;
  if (!args.ddirection) return;
  const T scale = static_cast<const T*>(args.gain)[row] * inverse;
  const T factor = sum * scale * inverse * inverse;
  const T* v = static_cast<const T*>(args.direction) + row * args.columns;
  T* dv = static_cast<T*>(args.ddirection) + row * args.columns;
  for_each_vector<T>(args.columns, [=](std::int64_t c, auto count) {
    store_n(dv + c, load_n(dv + c, count) - factor * load_n(v + c, count), count);
  });
}

}  // namespace

void run(CpuQueue&, const WeightNormScale& args) {
  for_accumulator_dtype("WeightNormScale", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_row(args.rows, args.columns, [&](std::int64_t row) {
      const T* v = static_cast<const T*>(args.direction) + row * args.columns;
      const T inverse = 1 / length_of_row(v, args.columns);
      static_cast<T*>(args.scale)[row] = static_cast<const T*>(args.gain)[row] * inverse;
      if (args.inverse_length) static_cast<T*>(args.inverse_length)[row] = inverse;
    });
  });
}

void run(CpuQueue&, const WeightNormBackward& args) {
  for_accumulator_dtype("WeightNormBackward", args.dtype, [&](auto zero) {
    for_each_row(args.rows, args.columns,
                 [&](std::int64_t row) { weight_norm_backward_row<decltype(zero)>(args, row); });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(WeightNormScale)
DTN_DISPATCH(WeightNormBackward)
