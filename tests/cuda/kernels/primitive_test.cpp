// Compares the primitive kernels on the device with float64 on the host.
#include "cuda/twin.h"
#include "kernels/primitive/copy.h"
#include "kernels/primitive/elementwise.h"
#include "kernels/primitive/reduce.h"
#include "kernels/primitive/select.h"
#include "kernels/primitive/softmax.h"

namespace dtn::test {
namespace {

constexpr DType kFloat = DType::kFloat32;
const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// A kernel with its inputs. Every type represents the same numbers.
struct Trial {
  const char* kernel;
  std::string what;
  std::vector<Tensor> inputs;
  Shape output;
  std::int64_t terms = 1;  // of its sums
  bool wide = false;       // the output has the accumulator type
  bool adds = false;       // the output is accumulated
  double factor = 2;       // multiple of float32's roundoff, for functions
};

Tensor numbers(const Shape& shape, std::uint32_t stream, double spread = 1, double mean = 0) {
  return representable(random_tensor(shape, stream, spread, mean));
}

// `make(dtype, in, out)` returns the arguments for memory on one side.
template <class Make>
void check(const Trial& t, Make make) {
  auto output = [&](DType dtype) {
    const DType type = t.wide ? accumulator_of(dtype) : dtype;
    return t.adds ? Twin(as(numbers(t.output, 9), type)) : Twin::output(t.output, type);
  };
  auto arguments = [&](DType dtype, const std::vector<Twin>& in, const Twin& out, Where w) {
    std::vector<const void*> pointers;
    for (const Twin& i : in) pointers.push_back(i.at(w));
    return make(dtype, pointers, out.at(w));
  };
  auto inputs = [&](DType dtype) {
    std::vector<Twin> in;
    for (const Tensor& i : t.inputs) {
      in.emplace_back(i.dtype() == DType::kInt64 ? i : as(i, dtype));
    }
    return in;
  };
  const std::vector<Twin> exact_in = inputs(DType::kFloat64);
  const Twin exact = output(DType::kFloat64);
  run(cpu_queue(), arguments(DType::kFloat64, exact_in, exact, kOnHost));
  const Doubles want = doubles(exact.host());
  EXPECT_NE(max_abs(want), 0) << t.kernel << ": " << t.what;
  for (DType dtype : kTypes) {
    const std::vector<Twin> in = inputs(dtype);
    const DType type = t.wide ? kFloat : dtype;
    const double bound = rounding_bound(type, t.terms, t.factor);
    Tensor got;
    under_every_schedule([&] {
      const Twin out = output(dtype);
      run(cuda_queue(), arguments(dtype, in, out, kOnDevice));
      got = out.device();
      return std::vector<Tensor>{got};
    });
    expect_close(t.kernel, t.what, got, want, bound);
    const Twin out = output(dtype);
    run(cpu_queue(), arguments(dtype, in, out, kOnHost));
    EXPECT_LE(relative_error(doubles(out.host()), want), bound)
        << t.kernel << " on the host: " << t.what << ", " << name_of(dtype);
  }
}

// Values around 1. Every third value equals that of the other stream.
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

TEST(CudaPrimitive, EveryFunction) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::size_t k = 0; k < std::size(kNames); ++k) {
    const auto function = static_cast<Function>(k);
    // Positive values for logarithms and roots; x lies on both sides of y.
    const std::vector<Tensor> in = {numbers({523}, 1, 0.75, 1), with_ties({523}, 2, 1),
                                    numbers({523}, 3, 0.75, 1)};
    // A sum of three terms may cancel; pow errs by several roundoffs.
    check({"elementwise", kNames[k], in, {523}, 1, false, false, 16},
          [&](DType dtype, const auto& from, void* out) {
            Elementwise args{dtype, function, {1, {523}}, {}, {{{1}}, {{1}}, {{1}}}, out, 1.5, 0.5};
            for (std::size_t i = 0; i < 3; ++i) args.in[i] = from[i];
            return args;
          });
  }
}

TEST(CudaPrimitive, BroadcastAndStrided) {
  DTN_SKIP_WITHOUT_DEVICE();
  // out[i, j, k] = a[j, i, k] - b[i, 0, k]
  check({"elementwise", "strided", {numbers({7, 5, 37}, 4), numbers({5, 37}, 5)}, {5, 7, 37}},
        [](DType dtype, const auto& in, void* out) {
          Elementwise args{};
          args.dtype = dtype;
          args.function = Function::kSub;
          args.extents = {3, {5, 7, 37}};
          args.in[0] = in[0], args.strides[0] = {{37, 185, 1}};
          args.in[1] = in[1], args.strides[1] = {{37, 0, 1}};
          args.out = out;
          return args;
        });
}

TEST(CudaPrimitive, Copies) {
  DTN_SKIP_WITHOUT_DEVICE();
  check({"strided_copy", "permuted", {numbers({5, 41, 3, 7}, 6)}, {41, 3, 5, 7}}, [](DType dtype,
                                                                                     const auto& in,
                                                                                     void* out) {
    return StridedCopy{dtype, {4, {41, 3, 5, 7}}, in[0], {{21, 7, 861, 1}}, out, {{105, 35, 7, 1}}};
  });
  check({"strided_copy", "transposed", {numbers({67, 35}, 7)}, {35, 67}},
        [](DType dtype, const auto& in, void* out) {
          return StridedCopy{dtype, {2, {35, 67}}, in[0], {{1, 35}}, out, {{67, 1}}};
        });
}

TEST(CudaPrimitive, CopiesOfEveryWidth) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kUInt8, DType::kBFloat16, DType::kFloat32, DType::kInt64}) {
    Tensor bytes = Tensor::empty({35}, dtype);
    for (std::size_t i = 0; i < bytes.nbytes(); ++i) {
      static_cast<std::uint8_t*>(bytes.raw())[i] = static_cast<std::uint8_t>(i * 7);
    }
    const Twin x(bytes), y = Twin::output({35}, dtype);
    for (Where w : {kOnHost, kOnDevice}) {
      const StridedCopy args{dtype, {2, {5, 7}}, x.at(w), {{1, 5}}, y.at(w), {{7, 1}}};
      w == kOnDevice ? run(cuda_queue(), args) : run(cpu_queue(), args);
    }
    EXPECT_TRUE(same_bits(y.device(), y.host())) << name_of(dtype);
    EXPECT_FALSE(same_bits(y.device(), bytes)) << name_of(dtype);
  }
}

struct ReduceSize {
  std::vector<std::int64_t> extents;
  std::vector<bool> reduced;
};
const ReduceSize kReductions[] = {{{5, 37}, {false, true}},
                                  {{3, 300}, {false, true}},
                                  {{67, 45}, {true, false}},
                                  {{3, 19, 70}, {false, true, false}},
                                  {{4, 3, 5, 40}, {true, false, true, false}},
                                  {{3, 4, 5, 6}, {false, true, false, true}},
                                  {{20011}, {true}},
                                  {{5003, 3}, {true, false}},
                                  {{1}, {false}}};

TEST(CudaPrimitive, Reductions) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const ReduceSize& s : kReductions) {
    std::int64_t outputs = 1, terms = 1;
    for (std::size_t d = 0; d < s.extents.size(); ++d) {
      (s.reduced[d] ? terms : outputs) *= s.extents[d];
    }
    const Tensor x = numbers({outputs * terms}, 8);
    for (Reduction kind : {Reduction::kSum, Reduction::kMax}) {
      for (bool wide : {false, true}) {
        const std::string what = cat(kind == Reduction::kSum ? "sum" : "max", " of ", terms,
                                     " for ", outputs, wide ? " widened" : "");
        check({"reduce", what, {x}, {outputs}, terms, wide},
              [&](DType dtype, const auto& in, void* out) {
                Reduce args{};
                args.dtype = dtype;
                args.y_dtype = wide ? accumulator_of(dtype) : dtype;
                args.kind = kind;
                args.extents.rank = static_cast<int>(s.extents.size());
                for (std::size_t d = 0; d < s.extents.size(); ++d) {
                  args.extents.size[d] = s.extents[d];
                  args.reduced[d] = s.reduced[d];
                }
                args.x = in[0];
                args.y = out;
                args.scale = 0.25;  // a maximum takes no notice of it
                return args;
              });
      }
    }
  }
}

TEST(CudaPrimitive, MaximumPropagatesNaN) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t columns : {7, 300}) {
    Tensor x = as(numbers({2, columns}, 9), kFloat);
    x.data<float>()[columns - 2] = NAN;
    const Twin in(x), out = Twin::output({2}, kFloat);
    for (Where w : {kOnHost, kOnDevice}) {
      Reduce args{kFloat,        kFloat,   Reduction::kMax, {2, {2, columns}},
                  {false, true}, in.at(w), out.at(w)};
      w == kOnDevice ? run(cuda_queue(), args) : run(cpu_queue(), args);
    }
    for (const Tensor& y : {out.device(), out.host()}) {
      EXPECT_TRUE(std::isnan(element(y, 0)));
      EXPECT_LE(element(y, 1), 1);
    }
  }
}

TEST(CudaPrimitive, Softmax) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t columns : {1, 5, 32, 197, 1000}) {
    const Shape shape{3, columns};
    check({"softmax_forward", to_string(shape), {numbers(shape, 10, 5)}, shape, columns},
          [=](DType dtype, const auto& in, void* out) {
            return SoftmaxForward{dtype, 3, columns, in[0], out};
          });
    // Any y is valid here.
    check({"softmax_backward",
           to_string(shape),
           {numbers(shape, 11), numbers(shape, 12)},
           shape,
           columns},
          [=](DType dtype, const auto& in, void* out) {
            return SoftmaxBackward{dtype, 3, columns, in[0], in[1], out};
          });
  }
}

TEST(CudaPrimitive, Select) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Tensor index = Tensor::from(std::vector<std::int64_t>{4, 0, 4, 2, 4, -1, 5}, {7});
  for (std::int64_t inner : {1, 37, 70}) {
    check({"select_forward",
           cat("inner ", inner),
           {numbers({3, 5, inner}, 13), index},
           {3, 7, inner}},
          [=](DType dtype, const auto& in, void* out) {
            return SelectForward{
                dtype, 3, 5, inner, 7, in[0], static_cast<const std::int64_t*>(in[1]), out};
          });
    check({"select_backward",
           cat("inner ", inner),
           {numbers({3, 7, inner}, 14), index},
           {3, 5, inner},
           4,
           true,
           true},
          [=](DType dtype, const auto& in, void* out) {
            return SelectBackward{dtype, 3,  5, inner, 7, static_cast<const std::int64_t*>(in[1]),
                                  in[0], out};
          });
  }
}

TEST(CudaPrimitive, AcceptsEmptyInputAndRejectsUnsupportedTypes) {
  DTN_SKIP_WITHOUT_DEVICE();
  run(cuda_queue(), SoftmaxForward{kFloat, 0, 5, nullptr, nullptr});
  run(cuda_queue(), SelectForward{kFloat, 0, 5, 3, 2, nullptr, nullptr, nullptr});
  run(cuda_queue(), Elementwise{kFloat, Function::kExp, {1, {0}}, {}, {}, nullptr});
  for (DType dtype : {DType::kFloat64, DType::kInt64}) {
    EXPECT_THROW(run(cuda_queue(), SoftmaxForward{dtype, 1, 1, nullptr, nullptr}), Error);
    EXPECT_THROW(run(cuda_queue(), Elementwise{dtype, Function::kExp, {1, {1}}, {}, {}, nullptr}),
                 Error);
    EXPECT_THROW(
        run(cuda_queue(), Reduce{dtype, dtype, Reduction::kSum, {1, {1}}, {}, nullptr, nullptr}),
        Error);
  }
}

}  // namespace
}  // namespace dtn::test
