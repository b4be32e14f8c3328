// Runs one differentiable operation forward and backward in any type, and compares the results with
// float64.
#pragma once

#include <functional>

#include "tensors.h"

namespace dtn::test {

struct Input {
  Tensor value;            // float64; rounded so that bfloat16 holds it exactly
  bool parameter = false;  // kept in the accumulator type, with its gradient

  static Input activation(const Shape& shape, std::uint32_t stream, double spread = 1,
                          double mean = 0) {
    return {representable(random_tensor(shape, stream, spread, mean)), false};
  }
  static Input weight(const Shape& shape, std::uint32_t stream, double spread = 1,
                      double mean = 0) {
    return {representable(random_tensor(shape, stream, spread, mean)), true};
  }
};

using Op = std::function<Variable(Context&, const std::vector<Variable>&)>;

// Returns the output, then the gradient of each input.
inline std::vector<Doubles> run_op(const Op& op, const std::vector<Input>& inputs, DType dtype,
                                   Context ctx = {}) {
  std::vector<Variable> leaves;
  for (const Input& input : inputs) {
    DType type = input.parameter ? accumulator_of(dtype) : dtype;
    leaves.emplace_back(as(input.value, type).clone(), true);
  }
  Tape tape;
  ctx.tape = &tape;
  Variable y = op(ctx, leaves);
  std::vector<Doubles> results = {doubles(y.value())};
  tape.backward(y, as(representable(random_tensor(y.shape(), 99)), y.dtype()));
  for (const Variable& leaf : leaves) {
    results.push_back(leaf.grad().defined() ? doubles(leaf.grad()) : Doubles());
  }
  return results;
}

// Expects |got - want| <= tolerance max |want| for each tensor.
inline void expect_close(const std::vector<Doubles>& got, const std::vector<Doubles>& want,
                         double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    std::string where = i == 0 ? what + ", output" : cat(what, ", gradient of input ", i - 1);
    EXPECT_GT(max_abs(want[i]), 0) << where << ": a test of zeros";
    EXPECT_LE(max_abs_difference(got[i], want[i]), tolerance * max_abs(want[i])) << where;
  }
}

// A sum of n rounded terms has an error of u sqrt(n) times its size at one standard deviation. The
// worst of the at most 1e6 elements of a test is within five standard deviations.
inline double float32_tolerance(std::int64_t reduction) {
  return 5 * unit_roundoff(DType::kFloat32) * std::sqrt(static_cast<double>(reduction));
}

// bfloat16 products are summed in float32, so only stored values are rounded. The error of a result
// is the sum of the errors of the `roundings` stored values before it, each at most of its size.
inline double bfloat16_tolerance(int roundings) {
  return roundings * unit_roundoff(DType::kBFloat16);
}

}  // namespace dtn::test
