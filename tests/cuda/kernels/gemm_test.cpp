#include "kernels/gemm/gemm.h"

#include "core/cuda_stream.h"
#include "cuda/matmul.h"
#include "cuda/twin.h"
#ifdef DTN_CUDA_EMULATED
#include <cublasLt.h>
#endif

namespace dtn::test {
namespace {

struct Types {
  DType dtype, c_dtype;
};
const Types kTypes[] = {{DType::kFloat32, DType::kFloat32},
                        {DType::kBFloat16, DType::kBFloat16},
                        {DType::kBFloat16, DType::kFloat32}};

struct Shape3 {
  std::int64_t m, n, k;
};

struct Product {
  Types types;
  Shape3 shape;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  std::int64_t pad = 0;    // added to the row length
  std::int64_t start = 0;  // elements before the first
  std::int64_t batch = 1;
};

std::string to_string(const Product& p) {
  return cat(name_of(p.types.dtype), " into ", name_of(p.types.c_dtype), " ", p.shape.m, " x ",
             p.shape.n, " x ", p.shape.k, p.transpose_a ? " T" : " N", p.transpose_b ? "T" : "N",
             p.accumulate ? " accumulated" : "", p.pad ? " padded" : "",
             p.start ? " unaligned" : "", p.batch > 1 ? " batched" : "");
}

// The matrices of a product in both memories, and in float64.
class Operands {
 public:
  explicit Operands(const Product& p, std::uint32_t stream = 1) : p_(p) {
    const auto& [m, n, k] = p.shape;
    auto lay_out = [&](std::int64_t rows, std::int64_t columns) {
      return Layout{columns + p.pad, rows * (columns + p.pad)};
    };
    la_ = p.transpose_a ? lay_out(k, m) : lay_out(m, k);
    lb_ = p.transpose_b ? lay_out(n, k) : lay_out(k, n);
    lc_ = lay_out(m, n);
    a_ = random_twin({count(la_)}, p.types.dtype, stream);
    b_ = random_twin({count(lb_)}, p.types.dtype, stream + 1);
    Shape c{count(lc_)};
    c_ = p.accumulate ? Twin::accumulated(c, p.types.c_dtype, stream + 2)
                      : Twin::output(c, p.types.c_dtype);
    for (auto [exact, twin] : {std::pair{&a64_, &a_}, {&b64_, &b_}, {&c64_, &c_}}) {
      *exact = from_doubles(doubles(twin->host()), twin->host().shape(), DType::kFloat64);
    }
  }

  Gemm on(Where w) const {
    return args(p_.types.dtype, p_.types.c_dtype, a_.at(w), b_.at(w), c_.at(w));
  }
  // Returns the result in float64. The gaps between rows keep their values.
  Doubles exact() {
    run(cpu_queue(), args(DType::kFloat64, DType::kFloat64, a64_.raw(), b64_.raw(), c64_.raw()));
    return doubles(c64_);
  }
  const Twin& a() const { return a_; }
  const Twin& b() const { return b_; }
  const Twin& c() const { return c_; }
  double bound() const {
    const bool on_tensor_cores = p_.types.dtype == DType::kBFloat16;
    return rounding_bound(p_.types.c_dtype, p_.shape.k) +
           (on_tensor_cores ? truncation_bound(p_.types.dtype, p_.shape.k) : 0);
  }

 private:
  struct Layout {
    std::int64_t ld, stride;
  };
  std::int64_t count(const Layout& l) const { return p_.start + p_.batch * l.stride; }
  Gemm args(DType dtype, DType c_dtype, void* a, void* b, void* c) const {
    auto from_start = [&](void* p, DType t) {
      return static_cast<std::byte*>(p) + p_.start * static_cast<std::int64_t>(size_of(t));
    };
    Gemm g{};
    g.dtype = dtype, g.c_dtype = c_dtype;
    g.m = p_.shape.m, g.n = p_.shape.n, g.k = p_.shape.k;
    g.a = from_start(a, dtype), g.b = from_start(b, dtype), g.c = from_start(c, c_dtype);
    g.lda = la_.ld, g.ldb = lb_.ld, g.ldc = lc_.ld;
    g.transpose_a = p_.transpose_a, g.transpose_b = p_.transpose_b;
    g.accumulate = p_.accumulate;
    g.batch = p_.batch;
    g.stride_a = la_.stride, g.stride_b = lb_.stride, g.stride_c = lc_.stride;
    return g;
  }

  Product p_;
  Layout la_, lb_, lc_;
  Twin a_, b_, c_;
  Tensor a64_, b64_, c64_;
};

// Compares the device with float64 and with the host, and expects the same bits in every run.
void check(const Product& p) {
  SCOPED_TRACE(to_string(p));
  Doubles exact = Operands(p).exact();
  under_every_schedule([&] {
    Operands operands(p);
    run(cuda_queue(), operands.on(kOnDevice));
    Tensor c = operands.c().device();
    expect_close("gemm", to_string(p), c, exact, operands.bound());
    run(cpu_queue(), operands.on(kOnHost));
    EXPECT_LE(relative_error(doubles(c), doubles(operands.c().host())), 2 * operands.bound());
    return std::vector{c};
  });
}

const Shape3 kShapes[] = {{1, 1, 1},    {3, 5, 1},    {5, 1, 3},    {1, 197, 64},   {7, 3, 5},
                          {197, 5, 33}, {64, 32, 16}, {61, 67, 71}, {196, 432, 197}};

TEST(CudaGemm, EveryTransposeOfEveryType) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Types& types : kTypes) {
    for (const Shape3& shape : kShapes) {
      for (int t = 0; t < 4; ++t) check({types, shape, t % 2 != 0, t / 2 != 0});
    }
  }
}

// Rows are further apart than they are long. The gaps must be neither read nor written.
TEST(CudaGemm, RowStridesAndUnalignedStarts) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Types& types : kTypes) {
    for (int t = 0; t < 4; ++t) {
      Product p{types, {37, 24, 40}, t % 2 != 0, t / 2 != 0};
      p.pad = 3;
      check(p);
      p.start = 1;
      check(p);
      p.pad = 0;
      p.accumulate = true;
      check(p);
    }
  }
}

TEST(CudaGemm, BatchesOfProducts) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Types& types : kTypes) {
    for (int t = 0; t < 4; ++t) {
      Product p{types, {29, 16, 24}, t % 2 != 0, t / 2 != 0};
      p.batch = 5;
      check(p);
      p.accumulate = true;
      p.pad = 8;
      check(p);
    }
  }
}

// One [T, T] factor times the columns of each head, from and into rows that hold all heads.
TEST(CudaGemm, BatchInterleavedInRows) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t tokens = 19, heads = 3, width = 8, channels = heads * width;
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Twin q = random_twin({tokens, channels}, dtype, 1), s = random_twin({tokens, tokens}, dtype, 2);
    Twin y = Twin::output({tokens, channels}, dtype);
    auto args = [&](Where w) {
      Gemm g{dtype,   dtype,   tokens, width,    tokens,  s.at(w),
             q.at(w), y.at(w), tokens, channels, channels};
      g.batch = heads;
      g.stride_b = g.stride_c = width;  // stride_a 0: all heads share one factor
      return g;
    };
    run(cpu_queue(), args(kOnHost));
    run(cuda_queue(), args(kOnDevice));
    expect_close("gemm", cat("interleaved ", name_of(dtype)), y.device(), doubles(y.host()),
                 2 * rounding_bound(dtype, tokens));
  }
}

// Weight gradients of a step: long sums, added to a small matrix.
TEST(CudaGemm, LongAccumulatedSums) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Types& types : kTypes) {
    for (Shape3 shape : {Shape3{24, 36, 5 * 197}, Shape3{33, 17, 16 * 197}}) {
      check({types, shape, true, false, true});
    }
  }
}

#ifdef DTN_CUDA_EMULATED
// The product then runs on copies. No other test uses these shapes, because plans are cached.
TEST(CudaGemm, CopiesRowsWithoutLibraryAlgorithm) {
  emu::DeviceModel model = emu::device_model();
  model.wants_aligned_rows = true;
  const emu::ScopedDeviceModel picky(model);
  for (const Types& types : kTypes) {
    for (int t = 0; t < 4; ++t) {
      Product p{types, {31, 27, 41}, t % 2 != 0, t / 2 != 0};
      p.pad = 2;
      p.start = 1;
      check(p);
      p.accumulate = true;
      p.batch = 3;
      check(p);
    }
  }
}
#endif

TEST(CudaGemm, ColumnSumsOfTransposedFactor) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (std::int64_t pad : {0, 5}) {
      Product p{{dtype, DType::kFloat32}, {45, 24, 394}, true, false, true};
      p.pad = pad;
      std::int64_t ld = p.shape.m + pad;
      under_every_schedule([&] {
        Operands operands(p);
        Twin sums = Twin::accumulated({p.shape.m}, DType::kFloat32, 9);
        Doubles want = doubles(sums.host()), a = doubles(operands.a().host());
        for (std::int64_t k = 0; k < p.shape.k; ++k) {
          for (std::int64_t i = 0; i < p.shape.m; ++i) {
            want[static_cast<std::size_t>(i)] += a[static_cast<std::size_t>(k * ld + i)];
          }
        }
        Gemm g = operands.on(kOnDevice);
        g.a_sums = sums.at(kOnDevice);
        run(cuda_queue(), g);
        expect_close("gemm", cat("a_sums ", name_of(dtype), " pad ", pad), sums.device(), want,
                     rounding_bound(DType::kFloat32, p.shape.k));
        expect_close("gemm", "beside a_sums", operands.c().device(), operands.exact(),
                     operands.bound());
        return std::vector{sums.device(), operands.c().device()};
      });
    }
  }
}

TEST(CudaGemm, EmptySizes) {
  DTN_SKIP_WITHOUT_DEVICE();
  Twin a = random_twin({6}, DType::kFloat32, 1);
  for (std::int64_t ld : {3, 4}) {
    for (bool accumulate : {false, true}) {
      Twin c = Twin::accumulated({2 * 2 * ld}, DType::kFloat32, 2);
      auto args = [&](Where w) {
        Gemm g{DType::kFloat32, DType::kFloat32, 2, 3, 0, a.at(w), a.at(w), c.at(w), 0, 3, ld};
        g.accumulate = accumulate;
        g.batch = 2;
        g.stride_c = 2 * ld;
        return g;
      };
      run(cpu_queue(), args(kOnHost));
      run(cuda_queue(), args(kOnDevice));
      EXPECT_TRUE(same_bits(c.device(), c.host())) << "ld " << ld << " accumulate " << accumulate;
      Gemm none = args(kOnDevice);
      none.k = 2, none.lda = 2;
      for (auto size : {&Gemm::m, &Gemm::n, &Gemm::batch}) {
        Gemm g = none;
        g.*size = 0;
        run(cuda_queue(), g);
      }
      EXPECT_TRUE(same_bits(c.device(), c.host()));
    }
  }
}

// NaN and infinities affect the rows and columns of their factors, and no others. A product that
// does not accumulate does not read the old C (Operands fills it with NaN).
TEST(CudaGemm, NonFiniteFactors) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t m = 9, n = 40, k = 24;
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Tensor values = random_tensor({m, k}, 1);
    values.data<double>()[2 * k + 5] = NAN;
    values.data<double>()[7 * k + 3] = INFINITY;
    Twin a(as(values, dtype)), b = random_twin({k, n}, dtype, 2), c = Twin::output({m, n}, dtype);
    run(cuda_queue(),
        Gemm{dtype, dtype, m, n, k, a.at(kOnDevice), b.at(kOnDevice), c.at(kOnDevice), k, n, n});
    Doubles got = doubles(c.device());
    for (std::int64_t i = 0; i < m * n; ++i) {
      double v = got[static_cast<std::size_t>(i)];
      EXPECT_EQ(std::isnan(v), i / n == 2) << i;
      EXPECT_EQ(std::isinf(v), i / n == 7) << i;
    }
  }
}

// tf32 keeps 10 fraction bits of each factor. Rounding or truncation errs by at most 2^-10 of a
// factor, and by twice that of a product.
TEST(CudaGemm, Tf32OnlyWhenAllowed) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (int t = 0; t < 4; ++t) {
    Product p{kTypes[0], {64, 96, 256}, t % 2 != 0, t / 2 != 0};
    Operands exact(p), precise(p), coarse(p), again(p);
    run(cuda_queue(), precise.on(kOnDevice));
    cuda::allow_tf32(true);
    run(cuda_queue(), coarse.on(kOnDevice));
    cuda::allow_tf32(false);
    run(cuda_queue(), again.on(kOnDevice));

    Doubles want = exact.exact();
    expect_close("gemm", cat("float32 before tf32 ", t), precise.c().device(), want,
                 precise.bound());
    EXPECT_TRUE(same_bits(again.c().device(), precise.c().device()));
    double most = static_cast<double>(p.shape.k);  // bound of the sum of |a b|; both are below 1
    double error = max_abs_difference(doubles(coarse.c().device()), want);
    double bound = most * (0x1p-9 + 0x1p-20) + max_abs(want) * coarse.bound();
    EXPECT_LE(error, bound);
    record_error("gemm", cat("tf32 ", t), DType::kFloat32, error, bound);
    // The error grows like a random walk, and is far larger than that of float32.
    EXPECT_LE(error, 16 * 0x1p-10 * std::sqrt(most));
#ifdef DTN_CUDA_EMULATED  // cuBLASLt may choose an algorithm without tf32
    EXPECT_GT(error, 10 * max_abs_difference(doubles(precise.c().device()), want));
#endif
  }
}

TEST(CudaGemm, CachesPlans) {
  DTN_SKIP_WITHOUT_DEVICE();
  Product p{kTypes[1], {52, 44, 36}, false, true};
  Operands first(p, 1), second(p, 11);
  std::size_t before = cuda::matmul_plan_count();
  run(cuda_queue(), first.on(kOnDevice));
  EXPECT_EQ(cuda::matmul_plan_count(), before + 1);
#ifdef DTN_CUDA_EMULATED
  emu::BlasCounts counts = emu::blas_counts();
#endif
  std::int64_t misses = cuda::allocator_stats().misses;
  run(cuda_queue(), second.on(kOnDevice));
  run(cuda_queue(), first.on(kOnDevice));
  EXPECT_EQ(cuda::matmul_plan_count(), before + 1);
  EXPECT_EQ(cuda::allocator_stats().misses, misses);
#ifdef DTN_CUDA_EMULATED
  counts.products += 2;
  EXPECT_EQ(emu::blas_counts(), counts);
#endif
  expect_close("gemm", "planned before", second.c().device(), second.exact(), second.bound());
  p.accumulate = true;
  Operands added(p);
  run(cuda_queue(), added.on(kOnDevice));
  EXPECT_EQ(cuda::matmul_plan_count(), before + 2) << "C takes part in the plan";
}

// Products that differ in one property share no plan, even if only the alignment of one matrix
// differs. No plan assumes more alignment than the product has; the emulator refuses that. If a
// library has no algorithm for a product, the product over padded copies creates another plan.
TEST(CudaGemm, EveryDifferenceNeedsNewPlan) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr DType f32 = DType::kFloat32, bf16 = DType::kBFloat16;
  Twin a = random_twin({8192}, f32, 1), b = random_twin({8192}, f32, 2);
  Twin c = Twin::accumulated({8192}, f32, 3);
  Gemm base{f32, f32, 20, 28, 24, a.at(kOnDevice), b.at(kOnDevice), c.at(kOnDevice), 64, 64, 64};
  base.batch = 2;
  base.stride_a = base.stride_b = base.stride_c = 2048;
  auto later = [](auto* p) { return const_cast<std::byte*>(static_cast<const std::byte*>(p)) + 4; };
  const std::function<void(Gemm&)> changes[] = {
      [](Gemm&) {},
      [](Gemm& g) { g.dtype = g.c_dtype = bf16; },
      [](Gemm& g) { g.dtype = bf16; },
      [](Gemm& g) { g.m = 21; },
      [](Gemm& g) { g.n = 29; },
      [](Gemm& g) { g.k = 25; },
      [](Gemm& g) { g.lda = 68; },
      [](Gemm& g) { g.ldb = 68; },
      [](Gemm& g) { g.ldc = 68; },
      [](Gemm& g) { g.transpose_a = true; },
      [](Gemm& g) { g.transpose_b = true; },
      [](Gemm& g) { g.accumulate = true; },
      [](Gemm& g) { g.batch = 3; },
      [](Gemm& g) { g.stride_a = 2052; },
      [](Gemm& g) { g.stride_b = 2052; },
      [](Gemm& g) { g.stride_c = 2052; },
      [&](Gemm& g) { g.a = later(g.a); },
      [&](Gemm& g) { g.b = later(g.b); },
      [&](Gemm& g) { g.c = later(g.c); },
  };
  for (int round : {0, 1}) {
    std::size_t index = 0;
    for (const auto& change : changes) {
      Gemm g = base;
      change(g);
      std::size_t before = cuda::matmul_plan_count();
      run(cuda_queue(), g);
      const std::size_t made = cuda::matmul_plan_count() - before;
#ifdef DTN_CUDA_EMULATED
      EXPECT_EQ(made, round == 0 ? 1u : 0u) << index;
#else
      EXPECT_EQ(made > 0, round == 0) << index;
#endif
      ++index;
    }
  }
  cuda::synchronize();
}

// A graph reads its factors when it is launched.
TEST(CudaGemm, CapturedAndReplayed) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Types& types : kTypes) {
    Product p{types, {40, 24, 1200}, true, false};
    p.batch = 2;
    Operands eager(p, 1), replayed(p, 1), changed(p, 5);
    run(cuda_queue(), eager.on(kOnDevice));
    cuda::Graph graph;
    graph.capture([&] { run(cuda_queue(), replayed.on(kOnDevice)); });
    EXPECT_GE(graph.size(), 1u);
    graph.launch();
    EXPECT_TRUE(same_bits(replayed.c().device(), eager.c().device()));

    run(cuda_queue(), changed.on(kOnDevice));
    cuda::copy_on_device(replayed.a().at(kOnDevice), changed.a().at(kOnDevice),
                         changed.a().host().nbytes());
    cuda::copy_on_device(replayed.b().at(kOnDevice), changed.b().at(kOnDevice),
                         changed.b().host().nbytes());
    graph.launch();
    EXPECT_TRUE(same_bits(replayed.c().device(), changed.c().device()));
    EXPECT_FALSE(same_bits(changed.c().device(), eager.c().device()));
  }
}

std::string message_of(const Gemm& g) {
  try {
    run(cuda_queue(), g);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(CudaGemm, ErrorsNameInvalidArgument) {
  DTN_SKIP_WITHOUT_DEVICE();
  Operands operands({kTypes[0], {4, 6, 8}});
  Gemm good = operands.on(kOnDevice);
  Gemm g = good;
  g.dtype = g.c_dtype = DType::kFloat64;
  EXPECT_NE(message_of(g).find("float64"), std::string::npos) << message_of(g);
  g = good;
  g.c_dtype = DType::kBFloat16;
  EXPECT_NE(message_of(g).find("float32 into bfloat16"), std::string::npos) << message_of(g);
  g = good;
  g.lda = 7;
  EXPECT_NE(message_of(g).find("lda 7"), std::string::npos) << message_of(g);
  g = good;
  g.ldc = 5;
  EXPECT_NE(message_of(g).find("ldc 5"), std::string::npos) << message_of(g);
  g = good;
  g.a_sums = g.c;
  EXPECT_NE(message_of(g).find("transpose_a"), std::string::npos) << message_of(g);
  EXPECT_EQ(message_of(good), "");
  cuda::synchronize();
}

}  // namespace
}  // namespace dtn::test
