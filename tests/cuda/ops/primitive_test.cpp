// Every primitive operation on the device beside the host, forward and backward.
#include "cuda/twin.h"
#include "primitive_cases.h"

namespace dtn::test {
namespace {

// The output, then the gradient of each input.
std::vector<Doubles> run_on_device(const PrimitiveCase& c, DType dtype, Device device) {
  std::vector<Variable> leaves;
  for (const Input& input : c.inputs) {
    const DType type = input.parameter ? accumulator_of(dtype) : dtype;
    leaves.emplace_back(as(input.value, type).to(device), true);
  }
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable y = c.op(ctx, leaves);
  EXPECT_EQ(y.device(), device);
  std::vector<Doubles> results = {doubles(y.value().to(kCpu))};
  tape.backward(y, as(representable(random_tensor(y.shape(), 99)), y.dtype()).to(device));
  for (const Variable& leaf : leaves) results.push_back(doubles(leaf.grad().to(kCpu)));
  return results;
}

TEST(CudaPrimitive, EveryOperationMatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const PrimitiveCase& c : primitive_cases()) {
    const auto want = run_on_device(c, DType::kFloat64, kCpu);
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      expect_close(run_on_device(c, dtype, kCuda), want, primitive_tolerance(dtype, c.terms),
                   cat(c.name, ", ", name_of(dtype)));
    }
  }
}

TEST(CudaPrimitive, ConstantsAreMadeOnTheDevice) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Variable x = primitive::full({3, 5}, DType::kBFloat16, kCuda, 0.5);
  EXPECT_EQ(doubles(x.value().to(kCpu)), Doubles(15, 0.5));
  EXPECT_EQ(doubles(primitive::constant(x, -2).value().to(kCpu)), Doubles({-2}));
  Context ctx;
  EXPECT_THROW(primitive::add(ctx, x, Variable(x.value().to(kCpu))), Error);
}

}  // namespace
}  // namespace dtn::test
