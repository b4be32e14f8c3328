// Compares every primitive operation on the device with the host, forward and backward.
#include "core/cuda_stream.h"
#include "cuda/caching.h"
#include "cuda/twin.h"
#include "primitive_cases.h"

namespace dtn::test {
namespace {

// Returns the output, then the gradient of each input.
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

// No operation reads back from the device or copies from the host, so a training step can be
// captured. A launched graph computes from the current values of its inputs.
TEST(CudaPrimitive, EveryOperationCanBeCaptured) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Caching caching;
  for (const PrimitiveCase& c : primitive_cases()) {
    if (c.name == "gather") continue;  // copies an index from the host
    SCOPED_TRACE(c.name);
    std::vector<Tensor> values, other;
    for (const Input& input : c.inputs) {
      values.push_back(as(input.value, DType::kFloat32).to(kCuda));
      Tensor changed = as(input.value, DType::kFloat32).clone();
      for (std::int64_t i = 0; i < changed.numel(); ++i) {
        changed.data<float>()[i] *= other.empty() ? 0.75f : 0.875f;
      }
      other.push_back(changed);
    }
    Tensor dy;
    std::vector<Tensor> results;
    cuda::MemoryPool pool;
    auto work = [&] {
      cuda::MemoryPool::Scope scope(pool);
      std::vector<Variable> leaves;
      for (const Tensor& v : values) leaves.emplace_back(v, true);
      Tape tape;
      Context ctx;
      ctx.tape = &tape;
      const Variable y = c.op(ctx, leaves);
      if (!dy.defined()) dy = as(random_tensor(y.shape(), 99), DType::kFloat32).to(kCuda);
      tape.backward(y, dy);
      results = {y.value()};
      for (const Variable& leaf : leaves) results.push_back(leaf.grad());
    };
    auto on_host = [&] {
      std::vector<Tensor> copies;
      for (const Tensor& t : results) copies.push_back(t.to(kCpu));
      return copies;
    };
    work();
    const std::vector<Tensor> before = on_host();
    cuda::Graph graph;
    graph.capture(work);
    for (std::size_t i = 0; i < values.size(); ++i) values[i].copy_from(other[i]);
    graph.launch();
    const std::vector<Tensor> captured = on_host();
    work();
    const std::vector<Tensor> eager = on_host();
    for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(same_bits(captured[i], eager[i]));
    EXPECT_FALSE(same_bits(captured[0], before[0]));
  }
}

TEST(CudaPrimitive, CreatesConstantsOnDevice) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Variable x = primitive::full({3, 5}, DType::kBFloat16, kCuda, 0.5);
  EXPECT_EQ(doubles(x.value().to(kCpu)), Doubles(15, 0.5));
  EXPECT_EQ(doubles(primitive::constant(x, -2).value().to(kCpu)), Doubles({-2}));
  Context ctx;
  EXPECT_THROW(primitive::add(ctx, x, Variable(x.value().to(kCpu))), Error);
}

}  // namespace
}  // namespace dtn::test
