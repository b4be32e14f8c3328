// Operations on small float64 tensors, recorded on the tape like all others.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/autograd/context.h"
#include "tensors.h"

namespace dtn::test {

inline Tensor tensor_of(std::vector<double> values) {
  auto n = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {n});
}

inline Variable add(Context& ctx, const Variable& a, const Variable& b) {
  Tensor y = a.value().clone();
  for (std::int64_t i = 0; i < y.numel(); ++i) y.data<double>()[i] += b.value().data<double>()[i];
  return ctx.record("add", y, {&a, &b}, [da = a.sink(), db = b.sink()](const Tensor& dy) {
    if (da) da->accumulate(dy);
    if (db) db->accumulate(dy);
  });
}

inline Tensor product(const Tensor& a, const Tensor& b) {
  Tensor y = a.clone();
  for (std::int64_t i = 0; i < y.numel(); ++i) y.data<double>()[i] *= b.data<double>()[i];
  return y;
}

inline Variable mul(Context& ctx, const Variable& a, const Variable& b) {
  return ctx.record("mul", product(a.value(), b.value()), {&a, &b},
                    [a = a.value(), b = b.value(), da = a.sink(), db = b.sink()](const Tensor& dy) {
                      if (da) da->accumulate(product(dy, b));
                      if (db) db->accumulate(product(dy, a));
                    });
}

inline Variable scaled(Context& ctx, const Variable& x, double factor) {
  return mul(ctx, x, Variable(Tensor::full(x.shape(), DType::kFloat64, factor)));
}

}  // namespace dtn::test
