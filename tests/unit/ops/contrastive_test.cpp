#include "dtn/ops/contrastive.h"

#include <functional>
#include <span>

#include "contrastive_oracle.h"
#include "kernels/loss/contrastive.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(ContrastiveForward)
DTN_RUN_ON_EACH_ISA(ContrastiveBackward)

namespace dtn {
namespace {

using test::ContrastiveBatch;
using test::Doubles;
using test::doubles;

TEST(Contrastive, MatchesDefinition) {
  for (const ContrastiveBatch& batch : test::contrastive_batches()) {
    SCOPED_TRACE(batch.name);
    const Tensor exact = batch.features(DType::kFloat64), single = batch.features(DType::kFloat32);
    const Tensor half = batch.features(DType::kBFloat16);
    const ops::Contrast how = batch.contrast();
    expect_oracle(batch, exact, test::run_contrastive(exact, how), 1e-13, 1e-13);
    expect_oracle(batch, single, test::run_contrastive(single, how), 1e-5, 1e-5);
    // Products and softmax are float32; only the gradient is rounded to bfloat16.
    const double rounded = test::unit_roundoff(DType::kBFloat16) + 1e-5;
    expect_oracle(batch, half, test::run_contrastive(half, how), 1e-5, rounded);
  }
}

TEST(Contrastive, ReferenceMatchesDefinition) {
  for (const ContrastiveBatch& batch : test::contrastive_batches()) {
    SCOPED_TRACE(batch.name);
    const Tensor features = batch.features(DType::kFloat64);
    const Variable z(features, true);
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable loss = ops::reference::contrastive(ctx, z, batch.contrast());
    tape.backward(loss);
    const test::ContrastiveOracle want = test::contrastive_oracle(batch, features);
    EXPECT_NEAR(loss.value().data<double>()[0], want.loss, 1e-13 * want.loss);
    EXPECT_LE(test::max_abs_difference(doubles(z.grad()), want.dz), 1e-13 * test::max_abs(want.dz));
  }
}

// Rows that are far apart or nearly equal, at a low temperature: exp of a product would overflow.
TEST(Contrastive, SubtractsLargestProduct) {
  ContrastiveBatch batch{"long rows", test::labels_of_views(8, 2, 4), 6, 0.07, 0.07};
  Tensor z = batch.features(DType::kFloat32);
  for (float& v : std::span(z.data<float>(), static_cast<std::size_t>(z.numel()))) v *= 5;
  const test::ContrastiveRun got = test::run_contrastive(z, batch.contrast());
  expect_oracle(batch, z, got, 1e-5, 1e-5);  // exp(25 / 0.07) overflows float32, not float64
  const Tensor equal = Tensor::full({16, 6}, DType::kFloat32, 6);
  EXPECT_NEAR(test::element(test::run_contrastive(equal, batch.contrast()).loss, 0), std::log(15),
              1e-5);
}

// Rows [begin, end) of the batch as one micro-batch, or every `step`-th of them.
std::vector<std::int64_t> every_nth(std::int64_t begin, std::int64_t end, std::int64_t step) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = begin; i < end; i += step) positions.push_back(i);
  return positions;
}

Tensor take_rows(const Tensor& x, const std::vector<std::int64_t>& positions) {
  Tensor taken = Tensor::empty({static_cast<std::int64_t>(positions.size()), x.dim(1)}, x.dtype());
  for (std::size_t r = 0; r < positions.size(); ++r) {
    const auto row = static_cast<std::int64_t>(r);
    taken.slice(row, row + 1).copy_from(x.slice(positions[r], positions[r] + 1));
  }
  return taken;
}

// The means of the gradients, weighted by n / m, make up the gradient of the whole batch. The loss
// has the same bits in every micro-batch.
TEST(Contrastive, MicroBatchesAddUpToWholeBatch) {
  for (const ContrastiveBatch& batch : test::contrastive_batches()) {
    const std::int64_t m = batch.rows();
    for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
      SCOPED_TRACE(cat(batch.name, ", ", name_of(dtype)));
      const Tensor z = batch.features(dtype);
      const test::ContrastiveRun whole = test::run_contrastive(z, batch.contrast());
      Doubles sum(static_cast<std::size_t>(z.numel()));
      // Two interleaved parts, of different sizes for an odd m.
      for (std::int64_t part : {0, 1}) {
        const std::vector<std::int64_t> rows = every_nth(part, m, 2);
        const auto n = static_cast<std::int64_t>(rows.size());
        ops::Contrast how = batch.contrast();
        how.all_features = z;
        how.positions = Tensor::from(rows, {n});
        const test::ContrastiveRun got = test::run_contrastive(take_rows(z, rows), how);
        EXPECT_TRUE(test::same_bits(got.loss, whole.loss));
        EXPECT_TRUE(test::same_bits(got.without_positives, whole.without_positives));
        const Doubles dz = doubles(got.dz);
        const double weight = static_cast<double>(n) / static_cast<double>(m);
        for (std::size_t i = 0; i < dz.size(); ++i) {
          const auto dim = static_cast<std::size_t>(batch.dim);
          sum[static_cast<std::size_t>(rows[i / dim]) * dim + i % dim] += weight * dz[i];
        }
      }
      const Doubles want = doubles(whole.dz);
      EXPECT_LE(test::max_abs_difference(sum, want), 1e-6 * test::max_abs(want));
    }
  }
}

// Without positions, z is the first rows of all_features. The reference agrees.
TEST(Contrastive, FirstRowsNeedNoPositions) {
  const ContrastiveBatch batch = test::contrastive_batches()[1];
  const Tensor z = batch.features(DType::kFloat64);
  const std::vector<std::int64_t> rows = every_nth(0, 13, 1);
  ops::Contrast how = batch.contrast();
  how.all_features = z;
  const test::ContrastiveRun got = test::run_contrastive(take_rows(z, rows), how);
  for (bool positions : {false, true}) {
    if (positions) how.positions = Tensor::from(rows, {13});
    EXPECT_TRUE(test::same_bits(test::run_contrastive(take_rows(z, rows), how).dz, got.dz));
    const Variable leaf(take_rows(z, rows), true);
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable loss = ops::reference::contrastive(ctx, leaf, how);
    tape.backward(loss);
    EXPECT_NEAR(loss.value().data<double>()[0], test::element(got.loss, 0), 1e-13);
    EXPECT_LE(test::max_abs_difference(doubles(leaf.grad()), doubles(got.dz)),
              1e-13 * test::max_abs(doubles(got.dz)));
  }
  // all_features stays as it is.
  EXPECT_TRUE(test::same_bits(how.all_features, batch.features(DType::kFloat64)));
}

TEST(Contrastive, NoPositivesGiveZero) {
  for (std::int64_t m : {1, 6}) {
    ContrastiveBatch batch{"", every_nth(0, m, 1), 4};
    const Tensor z = batch.features(DType::kFloat32);
    const test::ContrastiveRun got = test::run_contrastive(z, batch.contrast());
    EXPECT_EQ(test::element(got.loss, 0), 0);
    EXPECT_EQ(test::element(got.without_positives, 0), 1);
    EXPECT_EQ(doubles(got.dz), Doubles(static_cast<std::size_t>(4 * m), 0));
  }
}

TEST(Contrastive, NaNReachesLossAndGradient) {
  const ContrastiveBatch batch = test::contrastive_batches()[0];
  Tensor z = batch.features(DType::kFloat32);
  z.data<float>()[5 * batch.dim + 2] = NAN;
  const test::ContrastiveRun got = test::run_contrastive(z, batch.contrast());
  EXPECT_TRUE(std::isnan(test::element(got.loss, 0)));
  EXPECT_TRUE(std::isnan(test::max_abs(doubles(got.dz))));
}

TEST(Contrastive, SameBitsForAnyNumberOfThreads) {
  ContrastiveBatch batch{"", test::labels_of_views(150, 2, 10), 64};
  const Tensor z = batch.features(DType::kFloat32);
  ops::Contrast part = batch.contrast();
  part.all_features = z;
  part.positions = Tensor::from(every_nth(7, 300, 3), {98});
  const Tensor rows = take_rows(z, every_nth(7, 300, 3));
  std::vector<test::ContrastiveRun> first;
  for (int threads : test::kThreadCounts) {
    const test::Threads scope(threads);
    const std::vector<test::ContrastiveRun> got = {test::run_contrastive(z, batch.contrast()),
                                                   test::run_contrastive(rows, part)};
    if (first.empty()) first = got;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(test::same_bits(got[i].loss, first[i].loss)) << threads << " threads";
      EXPECT_TRUE(test::same_bits(got[i].dz, first[i].dz)) << threads << " threads";
    }
  }
}

TEST(Contrastive, RejectsInputsThatDoNotFit) {
  const ContrastiveBatch batch = test::contrastive_batches()[0];
  const Variable z(batch.features(DType::kFloat32));
  Context ctx;
  const auto fails = [&](const std::function<void(ops::Contrast&)>& change) {
    ops::Contrast how = batch.contrast();
    change(how);
    EXPECT_THROW(ops::contrastive(ctx, z, how), Error);
  };
  EXPECT_NO_THROW(ops::contrastive(ctx, z, batch.contrast()));
  fails([](ops::Contrast& how) { how.temperature = 0; });
  fails([](ops::Contrast& how) { how.base_temperature = -1; });
  fails([](ops::Contrast& how) { how.labels = Tensor(); });
  fails([](ops::Contrast& how) { how.labels = how.labels.slice(0, 3); });
  fails([](ops::Contrast& how) { how.labels = Tensor::zeros({32}, DType::kFloat32); });
  fails([&](ops::Contrast& how) { how.all_features = batch.features(DType::kFloat64); });
  fails([&](ops::Contrast& how) { how.all_features = z.value().slice(0, 31); });
  fails([](ops::Contrast& how) { how.positions = Tensor::full({31}, DType::kInt64, 0); });
  for (std::int64_t outside : {-1, 32}) {
    fails([&](ops::Contrast& how) {
      std::vector<std::int64_t> rows = every_nth(0, 32, 1);
      rows[7] = outside;
      how.positions = Tensor::from(rows, {32});
    });
  }
}

// Both kernels on one instruction set, in place over the products.
template <class A>
void check_kernels(Isa isa, const ContrastiveBatch& batch) {
  constexpr DType kType = DTypeOf<A>::value;
  const std::int64_t m = batch.rows(), dim = batch.dim;
  const Tensor features = batch.features(kType);
  const A* z = features.data<A>();
  Tensor products = Tensor::empty({m, m}, kType), each = Tensor::empty({m}, kType);
  Tensor lse = each.clone(), positives = each.clone();
  Tensor without = Tensor::empty({m}, DType::kFloat32);
  for (std::int64_t i = 0; i < m * m; ++i) {
    A dot = 0;
    for (std::int64_t c = 0; c < dim; ++c) dot += z[i / m * dim + c] * z[i % m * dim + c];
    products.data<A>()[i] = dot;
  }
  const ContrastiveArguments common{kType, m, products.raw(), batch.labels.data(),
                                    batch.temperature};
  run_on(isa, ContrastiveForward{common, batch.temperature / batch.base_temperature, each.raw(),
                                 lse.raw(), positives.raw(), without.data<float>()});
  const double scale = 1 / (batch.base_temperature * static_cast<double>(m));
  run_on(isa, ContrastiveBackward{common, m, nullptr, lse.raw(), positives.raw(), scale,
                                  products.raw()});
  const test::ContrastiveOracle want = test::contrastive_oracle(batch, features);
  double loss = 0;
  for (double l : doubles(each)) loss += l / static_cast<double>(m);
  Doubles dz(static_cast<std::size_t>(m * dim));
  for (std::int64_t i = 0; i < m * m; ++i) {
    for (std::int64_t c = 0; c < dim; ++c) {
      dz[static_cast<std::size_t>(i / m * dim + c)] +=
          static_cast<double>(products.data<A>()[i]) * static_cast<double>(z[i % m * dim + c]);
    }
  }
  const double tolerance = kType == DType::kFloat64 ? 1e-13 : 1e-5;
  EXPECT_NEAR(loss, want.loss, tolerance * want.loss);
  EXPECT_LE(test::max_abs_difference(dz, want.dz), tolerance * test::max_abs(want.dz));
}

TEST(Contrastive, KernelsMatchDefinitionOnEachInstructionSet) {
  for (Isa isa : test::isas()) {
    for (const ContrastiveBatch& batch : test::contrastive_batches()) {
      SCOPED_TRACE(cat(name_of(isa), ", ", batch.name));
      check_kernels<float>(isa, batch);
      check_kernels<double>(isa, batch);
    }
  }
}

}  // namespace
}  // namespace dtn
