#include "kernels/gemm/linear.h"

#include "core/cuda_stream.h"
#include "cuda/caching.h"
#include "cuda/matmul.h"
#include "cuda/twin.h"
#ifdef DTN_CUDA_EMULATED
#include <cublasLt.h>
#endif

namespace dtn::test {
namespace {

const DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};

struct Size {
  std::int64_t rows, in, out;
};
const Size kSizes[] = {{1, 1, 1},    {6, 1, 5},      {7, 5, 1},        {13, 7, 5},
                       {3, 197, 61}, {196, 48, 432}, {2 * 197, 64, 24}};

// Operations after the product.
struct Form {
  const char* name;
  bool bias = false, gelu = false, keeps_z = false, residual = false, in_place = false;
  bool row_scale = false;
};
const Form kForms[] = {
    {"product"},
    {"bias", true},
    {"gelu", false, true},
    {"gelu keeping z", false, true, true},
    {"bias, gelu", true, true},
    {"bias, gelu keeping z", true, true, true},
    {"residual", false, false, false, true},
    {"bias, residual", true, false, false, true},
    {"bias, residual in place", true, false, false, true, true},
    {"row scale", false, false, false, false, false, true},
    {"bias, row scale", true, false, false, false, false, true},
    {"bias, row scale, residual", true, false, false, true, false, true},
    {"row scale, residual in place", false, false, false, true, true, true},
};

// A forward pass in both memories and in float64.
class Forward {
 public:
  Forward(DType dtype, const Size& size, const Form& form, std::uint32_t stream = 1)
      : dtype_(dtype), size_(size), form_(form) {
    const auto& [rows, in, out] = size;
    x_ = random_twin({rows, in}, dtype, stream);
    // Outputs near 1, where gelu is curved.
    weight_ = random_twin({out, in}, dtype, stream + 1, 3 / std::sqrt(static_cast<double>(in)));
    bias_ = random_twin({out}, DType::kFloat32, stream + 2);
    if (form.residual) residual_ = random_twin({rows, out}, dtype, stream + 3);
    y_ = form.in_place ? residual_ : Twin::output({rows, out}, dtype);
    if (form.keeps_z) z_ = Twin::output({rows, out}, dtype);
    // One scale per row, or two scales if the number of rows is even. The first scale is 0: a
    // dropped sample.
    per_scale_ = rows % 2 == 0 ? rows / 2 : 1;
    Tensor scales = random_tensor({rows / per_scale_}, stream + 4, 0.5, 1.25);
    if (rows > per_scale_) scales.data<double>()[0] = 0;
    scale_ = Twin(as(scales, DType::kFloat32));
  }

  LinearForward on(Where w) const {
    return args(dtype_, x_.at(w), weight_.at(w), bias_.at(w), residual_.at(w), scale_.at(w),
                y_.at(w), z_.at(w));
  }
  struct Exact {
    Doubles y, z;
  };
  Exact exact() const {
    Tensor x = wide(x_), weight = wide(weight_), bias = wide(bias_), scale = wide(scale_);
    Tensor residual = form_.residual ? wide(residual_) : Tensor();
    Shape shape{size_.rows, size_.out};
    Tensor y = Tensor::empty(shape, DType::kFloat64), z = Tensor::empty(shape, DType::kFloat64);
    run(cpu_queue(), args(DType::kFloat64, x.raw(), weight.raw(), bias.raw(),
                          form_.residual ? residual.raw() : nullptr, scale.raw(), y.raw(),
                          form_.keeps_z ? z.raw() : nullptr));
    return {doubles(y), form_.keeps_z ? doubles(z) : Doubles()};
  }
  // Bound for values of about 1. Each rounding costs one unit: the rounding of y, of the bias to
  // its type, and of z before another kernel reads it. The rounding of z is scaled by at most 1.75,
  // or by a slope below 1.13.
  double bound() const {
    double roundings = 1 + (form_.bias ? 1 : 0) + (form_.gelu ? 1.13 : form_.row_scale ? 1.75 : 0);
    double largest = std::max(1.0, max_abs(doubles(y_.host())));
    return largest *
           (roundings * unit_roundoff(dtype_) + rounding_bound(DType::kFloat32, size_.in));
  }
  const Twin& x() const { return x_; }
  const Twin& bias() const { return bias_; }
  const Twin& y() const { return y_; }
  const Twin& z() const { return z_; }

 private:
  static Tensor wide(const Twin& t) {
    return from_doubles(doubles(t.host()), t.host().shape(), DType::kFloat64);
  }
  LinearForward args(DType dtype, const void* x, const void* weight, const void* bias,
                     const void* residual, const void* scale, void* y, void* z) const {
    LinearForward l{};
    l.dtype = dtype;
    l.rows = size_.rows, l.in = size_.in, l.out = size_.out;
    l.x = x, l.weight = weight, l.y = y;
    if (form_.bias) l.bias = bias;
    l.gelu = form_.gelu;
    l.preactivation = z;
    l.residual = residual;
    if (form_.row_scale) l.row_scale = scale, l.rows_per_scale = per_scale_;
    return l;
  }

  DType dtype_;
  Size size_;
  Form form_;
  std::int64_t per_scale_ = 1;
  Twin x_, weight_, bias_, residual_, y_, z_, scale_;
};

void expect_near(const std::string& what, const Tensor& got, const Doubles& want, double bound) {
  double error = max_abs_difference(doubles(got), want);
  EXPECT_LE(error, bound) << what;
  record_error("linear", what, got.dtype(), error, bound);
}

TEST(CudaLinear, EveryForwardVariant) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kDTypes) {
    for (const Size& size : kSizes) {
      for (const Form& form : kForms) {
        std::string what = cat(form.name, " ", size.rows, " x ", size.in, " x ", size.out);
        SCOPED_TRACE(cat(name_of(dtype), " ", what));
        Forward::Exact exact = Forward(dtype, size, form).exact();
        under_every_schedule([&] {
          Forward f(dtype, size, form);
          run(cuda_queue(), f.on(kOnDevice));
          run(cpu_queue(), f.on(kOnHost));
          std::vector results{f.y().device()};
          expect_near(what, results[0], exact.y, f.bound());
          EXPECT_LE(max_abs_difference(doubles(results[0]), doubles(f.y().host())), 2 * f.bound());
          if (form.keeps_z) {
            results.push_back(f.z().device());
            expect_near(what + " z", results[1], exact.z, f.bound());
          }
          return results;
        });
      }
    }
  }
}

// h is the gelu of the rounded z, whether z is kept or not.
TEST(CudaLinear, GeluMatchesKeptPreactivation) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kDTypes) {
    Size size{49, 24, 40};
    Forward kept(dtype, size, kForms[5]), forgotten(dtype, size, kForms[4]);
    run(cuda_queue(), kept.on(kOnDevice));
    run(cuda_queue(), forgotten.on(kOnDevice));
    Twin h = Twin::output({size.rows, size.out}, dtype);
    run(cuda_queue(),
        GeluForward{dtype, size.rows * size.out, kept.z().at(kOnDevice), h.at(kOnDevice)});
    EXPECT_TRUE(same_bits(kept.y().device(), h.device()));
    EXPECT_TRUE(same_bits(kept.y().device(), forgotten.y().device()));
  }
}

// The bias as given, rounded beforehand, and at an address that no product can read: the same bits.
TEST(CudaLinear, BiasTypeAndAlignmentDoNotChangeBits) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kDTypes) {
    Size size{37, 24, 40};
    Forward plain(dtype, size, kForms[1]);
    run(cuda_queue(), plain.on(kOnDevice));
    const Tensor& bias = plain.bias().host();
    for (std::int64_t start : {0, 1}) {
      auto shifted = [&](DType t) {
        Doubles values(static_cast<std::size_t>(start), 99.0), given = doubles(bias);
        values.insert(values.end(), given.begin(), given.end());
        return Twin(from_doubles(values, {start + size.out}, t));
      };
      Twin wide = shifted(DType::kFloat32), narrow = shifted(dtype);
      auto at = [&](const Twin& t, DType type) {
        return static_cast<std::byte*>(t.at(kOnDevice)) +
               start * static_cast<std::int64_t>(size_of(type));
      };
      for (bool ready : {false, true}) {
        Forward f(dtype, size, kForms[1]);
        LinearForward l = f.on(kOnDevice);
        l.bias = at(wide, DType::kFloat32);
        if (ready) l.bias_as_dtype = at(narrow, dtype);
        run(cuda_queue(), l);
        EXPECT_TRUE(same_bits(f.y().device(), plain.y().device())) << start << ready;
      }
    }
  }
}

class Backward {
 public:
  Backward(DType dtype, const Size& size, std::uint32_t stream = 1) : dtype_(dtype), size_(size) {
    const auto& [rows, in, out] = size;
    dy_ = random_twin({rows, out}, dtype, stream);
    weight_ = random_twin({out, in}, dtype, stream + 1, 3 / std::sqrt(static_cast<double>(out)));
    x_ = random_twin({rows, in}, dtype, stream + 2, 3);
    dx_ = Twin::output({rows, in}, dtype);
    h_ = Twin::output({rows, in}, dtype);
    dweight_ = Twin::accumulated({out, in}, DType::kFloat32, stream + 3);
    dbias_ = Twin::accumulated({out}, DType::kFloat32, stream + 4);
  }
  LinearBackwardInput input(Where w) const {
    return {dtype_, size_.rows, size_.in, size_.out, dy_.at(w), weight_.at(w), dx_.at(w)};
  }
  // Backward pass through the preceding activation, whose input is x.
  LinearBackwardInput through_gelu(Where w) const {
    LinearBackwardInput l = input(w);
    l.preactivation = x_.at(w);
    l.activation = h_.at(w);
    return l;
  }
  LinearBackwardWeight parameters(Where w) const {
    return {dtype_,    size_.rows, size_.in,       size_.out,
            dy_.at(w), x_.at(w),   dweight_.at(w), dbias_.at(w)};
  }

  DType dtype_;
  Size size_;
  Twin dy_, weight_, x_, dx_, h_, dweight_, dbias_;
};

// The same results in float64, computed on the host.
struct ExactBackward {
  Doubles dx, dx_through_gelu, h, dweight, dbias;

  explicit ExactBackward(const Backward& b) {
    const auto& [rows, in, out] = b.size_;
    auto wide = [](const Twin& t) {
      return from_doubles(doubles(t.host()), t.host().shape(), DType::kFloat64);
    };
    constexpr DType f64 = DType::kFloat64;
    Tensor dy = wide(b.dy_), weight = wide(b.weight_), x = wide(b.x_);
    Tensor gradient = Tensor::empty({rows, in}, f64), activation = Tensor::empty({rows, in}, f64);
    LinearBackwardInput l{f64, rows, in, out, dy.raw(), weight.raw(), gradient.raw()};
    run(cpu_queue(), l);
    dx = doubles(gradient);
    l.preactivation = x.raw();
    l.activation = activation.raw();
    run(cpu_queue(), l);
    dx_through_gelu = doubles(gradient);
    h = doubles(activation);
    Tensor sums = wide(b.dweight_), bias_sums = wide(b.dbias_);
    run(cpu_queue(),
        LinearBackwardWeight{f64, rows, in, out, dy.raw(), x.raw(), sums.raw(), bias_sums.raw()});
    dweight = doubles(sums);
    dbias = doubles(bias_sums);
  }
};

const Size kBackwardSizes[] = {{1, 1, 1},     {7, 5, 1},     {13, 7, 5},
                               {197, 24, 40}, {196, 61, 24}, {4 * 197, 48, 36}};

TEST(CudaLinear, BackwardInput) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kDTypes) {
    for (const Size& size : kBackwardSizes) {
      std::string what = cat(size.rows, " x ", size.in, " x ", size.out);
      SCOPED_TRACE(cat(name_of(dtype), " ", what));
      ExactBackward exact(Backward(dtype, size));
      // The product is rounded before and after its multiplication by the slope, which is below
      // 1.13.
      double largest = std::max(1.0, max_abs(exact.dx));
      double sums = rounding_bound(DType::kFloat32, size.out), unit = unit_roundoff(dtype);
      under_every_schedule([&] {
        Backward b(dtype, size), fused(dtype, size), in_place(dtype, size), slope(dtype, size);
        run(cuda_queue(), b.input(kOnDevice));
        expect_near("dx " + what, b.dx_.device(), exact.dx, largest * (unit + sums));

        run(cuda_queue(), fused.through_gelu(kOnDevice));
        double bound = largest * 1.13 * (2 * unit + sums) + 1e-6;
        expect_near("dx gelu' " + what, fused.dx_.device(), exact.dx_through_gelu, bound);
        expect_near("h " + what, fused.h_.device(), exact.h, 3 * unit + 1e-6);
        EXPECT_TRUE(same_bits(fused.x_.device(), fused.x_.host())) << "z was changed";

        LinearBackwardInput l = in_place.through_gelu(kOnDevice);
        l.activation = in_place.x_.at(kOnDevice);
        run(cuda_queue(), l);
        EXPECT_TRUE(same_bits(in_place.dx_.device(), fused.dx_.device()));
        EXPECT_TRUE(same_bits(in_place.x_.device(), fused.h_.device()));

        l = slope.through_gelu(kOnDevice);
        l.activation = nullptr;
        run(cuda_queue(), l);
        expect_near("dx gelu' only " + what, slope.dx_.device(), exact.dx_through_gelu, bound);
        return std::vector{b.dx_.device(), fused.dx_.device(), fused.h_.device()};
      });
    }
  }
}

TEST(CudaLinear, BackwardWeight) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kDTypes) {
    for (const Size& size : kBackwardSizes) {
      std::string what = cat(size.rows, " x ", size.in, " x ", size.out);
      SCOPED_TRACE(cat(name_of(dtype), " ", what));
      ExactBackward exact(Backward(dtype, size));
      double bound = rounding_bound(DType::kFloat32, size.rows);
      double largest = std::max(1.0, max_abs(exact.dweight));
      double largest_bias = std::max(1.0, max_abs(exact.dbias));
      under_every_schedule([&] {
        Backward both(dtype, size), weight(dtype, size), bias(dtype, size);
        run(cuda_queue(), both.parameters(kOnDevice));
        expect_near("dW " + what, both.dweight_.device(), exact.dweight, largest * bound);
        expect_near("db " + what, both.dbias_.device(), exact.dbias, largest_bias * bound);
        LinearBackwardWeight l = weight.parameters(kOnDevice);
        l.dbias = nullptr;
        run(cuda_queue(), l);
        EXPECT_TRUE(same_bits(weight.dweight_.device(), both.dweight_.device()));
        EXPECT_TRUE(same_bits(weight.dbias_.device(), weight.dbias_.host()));
        l = bias.parameters(kOnDevice);
        l.dweight = nullptr;
        run(cuda_queue(), l);
        EXPECT_TRUE(same_bits(bias.dbias_.device(), both.dbias_.device()));
        EXPECT_TRUE(same_bits(bias.dweight_.device(), bias.dweight_.host()));
        return std::vector{both.dweight_.device(), both.dbias_.device()};
      });
    }
  }
}

TEST(CudaLinear, EmptyInputIsNoOp) {
  DTN_SKIP_WITHOUT_DEVICE();
  Backward b(DType::kFloat32, {3, 4, 5});
  LinearBackwardWeight l = b.parameters(kOnDevice);
  l.rows = 0;
  run(cuda_queue(), l);
  EXPECT_TRUE(same_bits(b.dweight_.device(), b.dweight_.host()));
  EXPECT_TRUE(same_bits(b.dbias_.device(), b.dbias_.host()));
  LinearBackwardInput i = b.through_gelu(kOnDevice);
  i.rows = 0;
  run(cuda_queue(), i);
  Forward f(DType::kFloat32, {3, 4, 5}, kForms[5]);
  LinearForward none = f.on(kOnDevice);
  none.rows = 0;
  run(cuda_queue(), none);
  cuda::synchronize();
}

TEST(CudaLinear, RejectsInvalidArguments) {
  DTN_SKIP_WITHOUT_DEVICE();
  Forward f(DType::kFloat32, {4, 8, 8}, kForms[7]);
  LinearForward l = f.on(kOnDevice);
  l.gelu = true;
  EXPECT_THROW(run(cuda_queue(), l), Error);
  l = f.on(kOnDevice);
  l.preactivation = l.y;
  EXPECT_THROW(run(cuda_queue(), l), Error);
  l = f.on(kOnDevice);
  l.rows_per_scale = 0;
  EXPECT_THROW(run(cuda_queue(), l), Error);
  l = f.on(kOnDevice);
  l.in = 0;
  EXPECT_THROW(run(cuda_queue(), l), Error);
  l = f.on(kOnDevice);
  l.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), l), Error);
  Backward b(DType::kFloat32, {4, 8, 8});
  LinearBackwardInput i = b.through_gelu(kOnDevice);
  i.preactivation = nullptr;
  EXPECT_THROW(run(cuda_queue(), i), Error);
}

// One layer forward and backward in a graph. Capture creates nothing, and each launch reads the
// current values of its inputs. The bias of the second launch has the address of the first.
TEST(CudaLinear, CapturedAndReplayed) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kDTypes) {
    Size size{2 * 197, 24, 40};
    Caching caching;
    cuda::MemoryPool pool;
    auto enqueue = [&](const Forward& f, const Backward& b) {
      cuda::MemoryPool::Scope scope(pool);
      run(cuda_queue(), f.on(kOnDevice));
      run(cuda_queue(), b.through_gelu(kOnDevice));
      run(cuda_queue(), b.parameters(kOnDevice));
    };
    auto results = [](const Forward& f, const Backward& b) {
      return std::vector{f.y().device(), f.z().device(),      b.dx_.device(),
                         b.h_.device(),  b.dweight_.device(), b.dbias_.device()};
    };
    auto expect_same = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << i;
    };
    Forward eager(dtype, size, kForms[5]), captured(dtype, size, kForms[5]);
    Forward changed(dtype, size, kForms[5], 21);
    Backward eager_back(dtype, size), captured_back(dtype, size);
    enqueue(eager, eager_back);
    enqueue(changed, Backward(dtype, size));
    std::size_t plans = cuda::matmul_plan_count();
#ifdef DTN_CUDA_EMULATED
    emu::BlasCounts counts = emu::blas_counts();
#endif
    cuda::Graph graph;
    graph.capture([&] { enqueue(captured, captured_back); });
    EXPECT_EQ(cuda::matmul_plan_count(), plans);
#ifdef DTN_CUDA_EMULATED
    counts.products += 3;
    EXPECT_EQ(emu::blas_counts(), counts);
#endif
    graph.launch();
    expect_same(results(captured, captured_back), results(eager, eager_back));

    cuda::copy_on_device(captured.x().at(kOnDevice), changed.x().at(kOnDevice),
                         changed.x().host().nbytes());
    Forward third(dtype, size, kForms[5]);
    LinearForward l = third.on(kOnDevice);
    l.x = changed.x().at(kOnDevice);
    run(cuda_queue(), l);
    graph.launch();
    EXPECT_TRUE(same_bits(captured.y().device(), third.y().device()));
    EXPECT_FALSE(same_bits(captured.y().device(), eager.y().device()));
    // The gradients are accumulated a second time.
    run(cuda_queue(), eager_back.parameters(kOnDevice));
    EXPECT_TRUE(same_bits(captured_back.dweight_.device(), eager_back.dweight_.device()));
  }
}

}  // namespace
}  // namespace dtn::test
