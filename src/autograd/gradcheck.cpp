#include "dtn/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtn {
namespace {

Tensor random_cotangent(const Shape& shape, std::uint64_t seed) {
  Tensor t = Tensor::empty(shape, DType::kFloat64);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.data<double>()[i] = 2.0 * philox_uniform({seed, 0, 0}, static_cast<std::uint64_t>(i)) - 1.0;
  }
  return t;
}

}  // namespace

GradcheckResult gradcheck(const std::function<Variable(Context&, const std::vector<Variable>&)>& f,
                          const std::vector<Tensor>& inputs, Context base,
                          GradcheckOptions options) {
  std::vector<Variable> leaves;
  for (const Tensor& t : inputs) {
    DTN_CHECK(t.dtype() == DType::kFloat64, "gradcheck works in float64");
    leaves.emplace_back(t.clone(), true);
  }
  Tape tape;
  Context ctx = base;
  ctx.tape = &tape;
  Variable y = f(ctx, leaves);
  Tensor cotangent = random_cotangent(y.shape(), options.seed);
  tape.backward(y, cotangent.clone());

  auto value = [&] {
    Context silent = base;
    silent.tape = nullptr;
    Variable out = f(silent, leaves);
    double sum = 0;
    for (std::int64_t i = 0; i < out.value().numel(); ++i) {
      sum += out.value().data<double>()[i] * cotangent.data<double>()[i];
    }
    return sum;
  };

  GradcheckResult result;
  result.smallest_gradient = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    Tensor x = leaves[k].value();  // shares its storage with the input of f
    std::int64_t n = x.numel();
    std::int64_t stride = std::max<std::int64_t>(1, n / options.max_elements);
    double largest = 0, error = 0;
    std::int64_t worst = 0;
    for (std::int64_t i = 0; i < n; i += stride) {
      double original = x.data<double>()[i];
      double h = options.step * std::max(1.0, std::abs(original));
      x.data<double>()[i] = original + h;
      double above = value();
      x.data<double>()[i] = original - h;
      double below = value();
      x.data<double>()[i] = original;
      double numeric = (above - below) / (2 * h);
      double analytic = leaves[k].grad().defined() ? leaves[k].grad().data<double>()[i] : 0.0;
      largest = std::max(largest, std::abs(numeric));
      double e = std::abs(analytic - numeric);
      if (!(e <= error)) {
        error = e;
        worst = i;
      }
    }
    result.smallest_gradient = std::min(result.smallest_gradient, largest);
    double relative = largest > 0 ? error / largest : error;
    if (!(relative <= result.max_relative_error)) {
      result.max_relative_error = relative;
      result.worst = cat("input ", k, ", element ", worst);
    }
  }
  return result;
}

}  // namespace dtn
