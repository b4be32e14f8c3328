// The hand-vectorized primitive kernels, in the build for every instruction set.
#include "each_isa.h"
#include "kernels/primitive/elementwise.h"
#include "kernels/primitive/reduce.h"
#include "kernels/primitive/softmax.h"
#include "tensors.h"

DTN_RUN_ON_EACH_ISA(Elementwise)
DTN_RUN_ON_EACH_ISA(Reduce)
DTN_RUN_ON_EACH_ISA(SoftmaxForward)
DTN_RUN_ON_EACH_ISA(SoftmaxBackward)

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// Runs the kernel of `make(dtype, in, out)` in float64, and in the other types on each instruction
// set. The results differ by the rounding of sums of `terms` and of the result.
template <class Make>
void check(const std::string& what, const std::vector<Tensor>& inputs, const Shape& output,
           std::int64_t terms, bool wide, Make make) {
  auto result = [&](Isa isa, DType dtype) {
    std::vector<Tensor> in;
    for (const Tensor& i : inputs) in.push_back(as(i, dtype));
    Tensor out = Tensor::full(output, wide ? accumulator_of(dtype) : dtype, NAN);
    run_on(isa, make(dtype, in, out.raw()));
    return out;
  };
  const Doubles want = doubles(result(isas().front(), DType::kFloat64));
  EXPECT_GT(max_abs(want), 0) << what;
  for (Isa isa : isas()) {
    EXPECT_LE(max_abs_difference(doubles(result(isa, DType::kFloat64)), want),
              1e-13 * max_abs(want))
        << what << ", " << name_of(isa);
    for (DType dtype : kTypes) {
      const Tensor got = result(isa, dtype);
      const double bound = unit_roundoff(got.dtype()) + 16 * unit_roundoff(DType::kFloat32) *
                                                            std::sqrt(static_cast<double>(terms));
      EXPECT_LE(max_abs_difference(doubles(got), want), bound * max_abs(want))
          << what << ", " << name_of(dtype) << ", " << name_of(isa);
    }
  }
}

Tensor numbers(const Shape& shape, std::uint32_t stream, double spread = 1, double mean = 0) {
  return representable(random_tensor(shape, stream, spread, mean));
}

// Values near 1; every third equals that of the stream `other`.
Tensor with_ties(const Shape& shape, std::uint32_t stream, std::uint32_t other) {
  Tensor t = numbers(shape, stream, 0.75, 1);
  const Tensor same = numbers(shape, other, 0.75, 1);
  for (std::int64_t i = 0; i < t.numel(); i += 3) t.data<double>()[i] = same.data<double>()[i];
  return t;
}

constexpr const char* kNames[] = {
#define DTN_FUNCTION(name, inputs, formula) #name,
#include "kernels/primitive/elementwise_functions.inc"
#undef DTN_FUNCTION
};

TEST(PrimitiveKernels, EveryFunctionOnEveryInstructionSet) {
  for (std::size_t k = 0; k < std::size(kNames); ++k) {
    for (std::int64_t count : {5, 37, 1031}) {
      const Shape shape{count};
      check(kNames[k],
            {numbers(shape, 1, 0.75, 1), with_ties(shape, 2, 1), numbers(shape, 3, 0.75, 1)}, shape,
            1, false, [&](DType dtype, const auto& in, void* out) {
              Elementwise args{};
              args.dtype = dtype;
              args.function = static_cast<Function>(k);
              args.extents = {1, {count}};
              for (int i = 0; i < 3; ++i) args.in[i] = in[static_cast<std::size_t>(i)].raw();
              for (Strides& s : args.strides) s.step[0] = 1;
              args.out = out;
              args.a = 1.5;
              args.b = 0.5;
              return args;
            });
    }
  }
}

TEST(PrimitiveKernels, ReductionsOnEveryInstructionSet) {
  for (std::int64_t columns : {1, 7, 77, 5003}) {
    const Tensor x = numbers({11, columns}, 4);
    for (bool last : {false, true}) {
      for (Reduction kind : {Reduction::kSum, Reduction::kMax}) {
        check(cat("reduction of 11 x ", columns), {x}, {last ? 11 : columns}, last ? columns : 11,
              true, [&](DType dtype, const auto& in, void* out) {
                return Reduce{dtype,         accumulator_of(dtype), kind, {2, {11, columns}},
                              {!last, last}, in[0].raw(),           out};
              });
      }
    }
  }
}

TEST(PrimitiveKernels, SoftmaxOnEveryInstructionSet) {
  for (std::int64_t columns : {1, 7, 197, 1000}) {
    const Shape shape{5, columns};
    check("softmax", {numbers(shape, 5, 4)}, shape, columns, false,
          [&](DType dtype, const auto& in, void* out) {
            return SoftmaxForward{dtype, 5, columns, in[0].raw(), out};
          });
    check("softmax backward", {numbers(shape, 6), numbers(shape, 7)}, shape, columns, false,
          [&](DType dtype, const auto& in, void* out) {
            return SoftmaxBackward{dtype, 5, columns, in[0].raw(), in[1].raw(), out};
          });
  }
}

}  // namespace
}  // namespace dtn::test
