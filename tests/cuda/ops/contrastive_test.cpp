// The contrastive loss and L2 normalization on the device, against their definitions in float64.
#include "dtn/ops/contrastive.h"

#include <array>

#include "contrastive_oracle.h"
#include "core/cuda_stream.h"
#include "cuda/caching.h"
#include "cuda/twin.h"
#include "dtn/ops/norm.h"
#include "kernels/loss/contrastive.h"

namespace dtn::test {
namespace {

TEST(CudaContrastive, MatchesDefinition) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const ContrastiveBatch& batch : contrastive_batches()) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(cat(batch.name, ", ", name_of(dtype)));
      const Tensor z = batch.features(dtype);
      const double rounded = dtype == DType::kBFloat16 ? unit_roundoff(dtype) : 0;
      const ContrastiveRun run = run_contrastive(z.to(kCuda), batch.contrast(kCuda));
      expect_oracle(batch, z, run, 1e-5, rounded + 1e-5);
    }
  }
}

TEST(CudaContrastive, ReferenceMatchesDefinition) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const ContrastiveBatch& batch : contrastive_batches()) {
    SCOPED_TRACE(batch.name);
    const Tensor features = batch.features(DType::kFloat32);
    const Variable z(features.to(kCuda), true);
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable loss = ops::reference::contrastive(ctx, z, batch.contrast(kCuda));
    tape.backward(loss);
    const ContrastiveOracle want = contrastive_oracle(batch, features);
    EXPECT_NEAR(element(loss.value().to(kCpu), 0), want.loss, 1e-5 * want.loss);
    EXPECT_LE(max_abs_difference(doubles(z.grad().to(kCpu)), want.dz), 1e-5 * max_abs(want.dz));
  }
}

// Arguments and outputs of both kernels for rows of products, on host and device.
struct ContrastiveProblem {
  std::int64_t rows, anchors;
  Twin products, labels, positions, loss, lse, positives, without, upstream, gradient;

  ContrastiveProblem(std::int64_t m, std::int64_t n, std::int64_t classes) : rows(m), anchors(n) {
    const Tensor half = random_tensor({m, m}, 1);
    Tensor symmetric = half.clone();
    Tensor l = Tensor::empty({m}, DType::kInt64), p = Tensor::empty({n}, DType::kInt64);
    for (std::int64_t i = 0; i < m * m; ++i) {
      symmetric.data<double>()[i] += half.data<double>()[i % m * m + i / m];
    }
    for (std::int64_t i = 0; i < m; ++i) l.data<std::int64_t>()[i] = i * 7919 % classes;
    for (std::int64_t i = 0; i < n; ++i) p.data<std::int64_t>()[i] = m - 1 - i;
    products = Twin(as(symmetric, DType::kFloat32));
    labels = Twin(l);
    positions = Twin(p);
    upstream = Twin(Tensor::full({1}, DType::kFloat32, -0.75));
    for (Twin* t : {&loss, &lse, &positives, &without}) *t = Twin::output({m}, DType::kFloat32);
    gradient = Twin::output({n, m}, DType::kFloat32);
  }
  ContrastiveArguments common(Where w) const {
    return {DType::kFloat32, rows, products.at(w), static_cast<const std::int64_t*>(labels.at(w)),
            0.4};
  }
  ContrastiveForward forward(Where w) const {
    return {common(w),       1.25,
            loss.at(w),      lse.at(w),
            positives.at(w), static_cast<float*>(without.at(w))};
  }
  ContrastiveBackward backward(Where w) const {
    return {common(w),      anchors,         static_cast<const std::int64_t*>(positions.at(w)),
            lse.at(w),      positives.at(w), 0.3,
            gradient.at(w), upstream.at(w)};
  }
  void run_on_device() const {
    run(cuda_queue(), forward(kOnDevice));
    run(cuda_queue(), backward(kOnDevice));
  }
};

// Both kernels of the device against those of the host. The longest sum has m terms, and the
// rounding of lse, which is below 8, is a relative error of the gradient.
void check_kernels(const ContrastiveProblem& p) {
  const std::string what = cat(p.anchors, " of ", p.rows, " rows");
  run(cpu_queue(), p.forward(kOnHost));
  run(cpu_queue(), p.backward(kOnHost));
  p.run_on_device();
  const double bound = rounding_bound(DType::kFloat32, p.rows, 4);
  const auto compare = [&](const char* kernel, const Twin& t, double factor) {
    expect_close(kernel, what, t.device(), doubles(t.host()), factor * bound);
  };
  compare("contrastive_forward", p.lse, 1);
  compare("contrastive_forward", p.loss, 1);
  compare("contrastive_forward", p.positives, 0);
  compare("contrastive_forward", p.without, 0);
  compare("contrastive_backward", p.gradient, 8);
}

TEST(CudaContrastive, KernelsMatchHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (auto [m, n, classes] : {std::array<std::int64_t, 3>{2, 2, 1},
                               {31, 31, 5},
                               {256, 5, 100},
                               {257, 64, 200},
                               {600, 3, 7}}) {
    check_kernels(ContrastiveProblem(m, n, classes));
  }
}

TEST(CudaContrastive, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  under_every_schedule([] {
    const ContrastiveProblem p(300, 2, 150);
    p.run_on_device();
    return std::vector{p.loss.device(), p.lse.device(), p.positives.device(), p.without.device(),
                       p.gradient.device()};
  });
}

TEST(CudaContrastive, GradientOverwritesProducts) {
  DTN_SKIP_WITHOUT_DEVICE();
  const ContrastiveProblem p(37, 37, 5);
  run(cuda_queue(), p.forward(kOnDevice));
  ContrastiveBackward args = p.backward(kOnDevice);
  args.positions = nullptr;
  run(cuda_queue(), args);
  args.gradient = const_cast<void*>(args.products);
  run(cuda_queue(), args);
  EXPECT_TRUE(same_bits(p.products.device(), p.gradient.device()));
}

TEST(CudaContrastive, PositionOutsideRowsGivesNaN) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t outside : {std::int64_t{-1}, std::int64_t{9}, INT64_MAX, INT64_MIN}) {
    ContrastiveProblem p(9, 3, 2);
    Tensor positions = p.positions.host();
    positions.data<std::int64_t>()[1] = outside;
    p.positions = Twin(positions);
    p.run_on_device();
    const Doubles gradient = doubles(p.gradient.device());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      EXPECT_EQ(std::isnan(gradient[i]), i / 9 == 1) << i;
    }
  }
}

TEST(CudaContrastive, RejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  ContrastiveForward forward = ContrastiveProblem(4, 4, 2).forward(kOnDevice);
  ContrastiveBackward backward = ContrastiveProblem(4, 4, 2).backward(kOnDevice);
  forward.dtype = backward.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), forward), Error);
  EXPECT_THROW(run(cuda_queue(), backward), Error);
}

// A head's end: normalized rows, some of them as a micro-batch, and the loss.
struct Head {
  Tensor loss, without_positives, dx;

  Head(const Tensor& x, const Tensor& dloss, ops::Contrast how) {
    const Variable leaf(x, true);
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable z = ops::l2_normalize(ctx, leaf);
    how.all_features = z.value();
    const ops::ContrastiveLoss r = ops::contrastive(ctx, z, how);
    tape.backward(r.loss, dloss);
    loss = r.loss.value(), without_positives = r.without_positives, dx = leaf.grad();
  }
};

// Nothing is read back from the device or copied from the host, so a training step can be captured.
TEST(CudaContrastive, CapturedStepComputesFromCurrentValues) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Caching caching;
  const ContrastiveBatch batch = contrastive_batches()[1];
  const std::int64_t m = batch.rows();
  ops::Contrast how = batch.contrast(kCuda);
  std::vector<std::int64_t> reversed;
  for (std::int64_t i = 0; i < m; ++i) reversed.push_back(i);
  how.positions = Tensor::from(reversed, {m}).to(kCuda);
  const Tensor first = as(random_tensor({m, 20}, 1), DType::kFloat32);
  const Tensor second = as(random_tensor({m, 20}, 2), DType::kFloat32);
  Tensor x = first.to(kCuda);
  const Tensor dloss = Tensor::full({1}, DType::kFloat32, 0.5, kCuda);
  std::vector<Tensor> results;
  cuda::MemoryPool pool;
  const auto step = [&] {
    cuda::MemoryPool::Scope scope(pool);
    const Head head(x, dloss, how);
    results = {head.loss, head.without_positives, head.dx};
  };
  const auto on_host = [&] {
    std::vector<Tensor> copies;
    for (const Tensor& t : results) copies.push_back(t.to(kCpu));
    return copies;
  };
  step();
  const std::vector<Tensor> before = on_host();
  cuda::Graph graph;
  graph.capture(step);
  x.copy_from(second);
  graph.launch();
  const std::vector<Tensor> captured = on_host();
  step();
  const std::vector<Tensor> eager = on_host();
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(same_bits(captured[i], eager[i]));
  EXPECT_FALSE(same_bits(captured[0], before[0]));
}

// Rows of zeros and rows shorter than 1e-12 are divided by 1e-12.
TEST(CudaL2Normalize, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t channels : {7, 128, 256}) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Tensor x = random_tensor({5, channels}, 3);
      for (std::int64_t c = 0; c < channels; ++c) {
        x.data<double>()[channels + c] = 0;
        x.data<double>()[2 * channels + c] *= 1e-14;
      }
      const Tensor dy = as(random_tensor({5, channels}, 4), dtype);
      std::array<std::vector<Doubles>, 2> results;  // on the host, on the device
      for (Device device : {kCpu, kCuda}) {
        const Variable leaf(as(x, dtype).to(device), true);
        Tape tape;
        Context ctx;
        ctx.tape = &tape;
        const Variable y = ops::l2_normalize(ctx, leaf);
        tape.backward(y, dy.clone().to(device));
        results[device == kCuda] = {doubles(y.value().to(kCpu)), doubles(leaf.grad().to(kCpu))};
      }
      for (std::size_t i = 0; i < 2; ++i) {
        const double bound = 8 * unit_roundoff(DType::kFloat32) +
                             (dtype == DType::kBFloat16 ? 2 * unit_roundoff(dtype) : 0);
        for (std::size_t row = 0; row < 5; ++row) {
          const auto part = [&](const Doubles& of) {
            const auto begin = of.begin() + static_cast<std::ptrdiff_t>(row) * channels;
            return Doubles(begin, begin + channels);
          };
          EXPECT_LE(relative_error(part(results[1][i]), part(results[0][i])), bound)
              << channels << " channels, " << name_of(dtype) << ", row " << row;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
