// A normalizer of one's own in elementary operations, its gradient checked against finite
// differences. Needs the installed library alone.
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "dtn/dtn.h"

namespace {

using dtn::Context;
using dtn::Variable;
namespace op = dtn::elementary;

// x [B, T, C], weight [C]. A token is divided by the mean size of its channels:
//   y = weight x / (1/C sum_c |x_c| + eps)
Variable mean_size_norm(Context& ctx, const Variable& x, const Variable& weight) {
  constexpr double kEps = 1e-5;
  Variable size =
      op::add(ctx, op::clamp_at_zero(ctx, x), op::clamp_at_zero(ctx, op::affine(ctx, x, -1)));
  Variable mean = op::affine(ctx, op::mean(ctx, size, 2), 1, kEps);
  return op::mul(ctx, op::div(ctx, x, mean), weight);
}

dtn::Tensor waves(const dtn::Shape& shape, double step) {
  dtn::Tensor t = dtn::Tensor::empty(shape, dtn::DType::kFloat64);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.data<double>()[i] = std::sin(step * static_cast<double>(i + 1));
  }
  return t;
}

int check() {
  std::printf("dtn %s; configs such as %s\n", dtn::version(),
              dtn::find_config("vit_s_star_dtn").c_str());
  const dtn::Tensor x = waves({2, 6, 8}, 0.7), weight = waves({8}, 1.3);
  const auto result = dtn::gradcheck(
      [](Context& ctx, const std::vector<Variable>& in) {
        return mean_size_norm(ctx, in[0], in[1]);
      },
      {x, weight});
  std::printf("gradient: relative error %.1e\n", result.max_relative_error);

  return result.max_relative_error < 1e-7 && result.smallest_gradient > 0 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return check();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "own_normalizer: %s\n", e.what());
    return 1;
  }
}
