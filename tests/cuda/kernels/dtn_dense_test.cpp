// DTN with full position matrices on the device, and the matrices themselves. See
// dtn_norm_problem.h for the references and tolerances. The emulator computes the products of the
// BLAS library.
#include "kernels/dtn/dtn_dense.h"

#include "cuda/kernels/dtn_norm_problem.h"
#include "dtn/core/check.h"
#include "kernels/dtn/dtn_dense_positions.h"

namespace dtn::test {
namespace {

constexpr DtnPositionKind kKinds[] = {DtnPositionKind::kRelative, DtnPositionKind::kTable,
                                      DtnPositionKind::kBanded};

struct Positions {
  DtnPositionKind kind = DtnPositionKind::kTable;
  int pool = 1, band = 5;
};

struct DenseProblem : DtnNormProblem {
  DtnPositionKind kind;
  Twin weights;  // position weights

  DenseProblem(const ShapeCase& s, const Positions& positions, DtnVariant v = DtnVariant::kPaper,
               DType type = DType::kFloat32, const Content& content = {})
      : DtnNormProblem(s, v, type, content), kind(positions.kind), weights(pos_weight) {
    dense.pool = positions.pool;
    if (kind == DtnPositionKind::kBanded) dense.band = positions.band;
    if (kind != DtnPositionKind::kTable) return;
    weights = Twin(
        as(random_tensor({dense.heads, dense.cells(), dense.cells()}, 9, 1.5), DType::kFloat32));
    dense.position_table = doubles(weights.host());
  }
};

struct DenseOutputs : Outputs {
  Twin p, dp, dweights;  // matrices P, their gradients, and the gradients of the position weights

  explicit DenseOutputs(const DenseProblem& problem) : Outputs(problem) {
    const auto& d = problem.dense;
    p = Twin::output({d.heads, d.cells(), d.cells()}, DType::kFloat32);
    dp = Twin::output({d.heads, d.cells(), d.cells()}, DType::kFloat32);
    dweights = dpos_weight;
    if (problem.kind == DtnPositionKind::kTable) {
      dweights = Twin(as(random_tensor(problem.weights.host().shape(), 8, 0), DType::kFloat32));
    }
  }
  std::vector<Tensor> all() const {
    std::vector<Tensor> tensors = Outputs::all();
    for (const Twin* t : {&p, &dp, &dweights}) tensors.push_back(t->device());
    return tensors;
  }
};

DtnDensePositions matrix_of(const DenseProblem& p, const DenseOutputs& o, Where w) {
  DtnDensePositions m{};
  m.dtype = DType::kFloat32;
  m.heads = p.dense.heads;
  m.grid_h = p.dense.grid_h / p.dense.pool;
  m.grid_w = p.dense.grid_w / p.dense.pool;
  m.kind = p.kind;
  m.variant = p.variant;
  m.band = p.dense.band;
  m.weight = p.weights.at(w);
  m.p = o.p.at(w);
  return m;
}
DtnDensePositionsBackward matrix_backward_of(const DenseProblem& p, const DenseOutputs& o,
                                             Where w) {
  return {matrix_of(p, o, w), o.dp.at(w), o.dweights.at(w)};
}
DtnDenseForward dense_forward_of(const DenseProblem& p, const DenseOutputs& o, Where w) {
  return {forward_of(p, o, w), o.p.at(w)};
}
DtnDenseBackward dense_backward_of(const DenseProblem& p, const DenseOutputs& o, Where w) {
  return {backward_of(p, o, w), o.p.at(w), o.dp.at(w)};
}

template <class Queue>
void run_all(Queue& queue, const DenseProblem& p, const DenseOutputs& o, Where w) {
  run(queue, matrix_of(p, o, w));
  run(queue, dense_forward_of(p, o, w));
  run(queue, dense_backward_of(p, o, w));
  if (p.kind != DtnPositionKind::kBanded) run(queue, matrix_backward_of(p, o, w));
}

std::string name_of(const DenseProblem& p) {
  const char* kind = p.kind == DtnPositionKind::kTable      ? "table"
                     : p.kind == DtnPositionKind::kRelative ? "relative"
                                                            : "banded";
  return cat(p.name(kind), " pool ", p.dense.pool);
}

void expect_dense(const std::string& what, const DenseProblem& p, const DenseOutputs& o,
                  const DtnNormExpected& want, double factor = 1) {
  expect_outputs(what, Path::kPlain, p, o, want, factor, 1e-30, "dtn_dense");
  if (p.kind != DtnPositionKind::kTable) return;
  expect_close("dtn_dense", what + " dtable", o.dweights.device(), want.gradients.position_table,
               factor * tolerance(Path::kPlain, DType::kFloat32).positions);
}

void check_dense(const DenseProblem& p, Runs runs = Runs::kOnce) {
  const DtnNormExpected exact = oracle(p);
  const DenseOutputs host(p);
  run_all(cpu_queue(), p, host, kOnHost);
  DtnNormExpected cpu{
      doubles(host.y.host()),
      {doubles(host.dx.host()), doubles(host.dweight.host()), doubles(host.dbias.host()),
       doubles(host.dlambda_mean.host()), doubles(host.dlambda_var.host()),
       doubles(host.dpos_weight.host()), doubles(host.dweights.host())}};
  const std::string what = name_of(p);
  SCOPED_TRACE(what);
  auto body = [&] {
    DenseOutputs o(p);
    run_all(cuda_queue(), p, o, kOnDevice);
    expect_dense(what + " oracle", p, o, exact);
    expect_dense(what + " twin", p, o, cpu, 2);
    expect_statistics(what + " twin", p, o, host);
    expect_close("dtn_dense_positions", what, o.p.device(), doubles(host.p.host()), 2e-6);
    return o.all();
  };
  if (runs == Runs::kOnce) {
    body();
  } else {
    under_every_schedule(body);
  }
}

struct PooledShape {
  ShapeCase shape;
  int pool;
};

TEST(CudaDtnDense, MatchesReferenceAndCpu) {
  DTN_SKIP_WITHOUT_DEVICE();
  const PooledShape shapes[] = {
      {{2, 7, 5, 32, 4}, 1}, {{2, 6, 9, 21, 3}, 3}, {{1, 1, 13, 70, 1}, 1},
      {{3, 4, 6, 24, 1}, 2}, {{2, 1, 1, 9, 3}, 1},  {{2, 4, 4, 6, 2}, 4},
  };
  for (const auto& [shape, pool] : shapes) {
    for (DtnVariant variant : kVariants) {
      for (DtnPositionKind kind : kKinds) {
        check_dense({shape, {kind, pool}, variant}, Runs::kEverySchedule);
        check_dense({shape, {kind, pool}, variant, DType::kBFloat16});
      }
    }
  }
}

TEST(CudaDtnDense, SizesOfModels) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnPositionKind kind : kKinds) {
    check_dense({{1, 14, 14, 96, 2}, {kind}});
    check_dense({{2, 14, 14, 64, 1}, {kind, 2}, DtnVariant::kOfficial, DType::kBFloat16});
    check_dense({{1, 1, 197, 16, 2}, {kind}, DtnVariant::kOfficial});
  }
}

TEST(CudaDtnDense, LargeMean) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    for (int pool : {1, 2}) {
      check_dense({{2, 8, 10, 48, 2},
                   {DtnPositionKind::kTable, pool},
                   variant,
                   DType::kFloat32,
                   {.mean = 1e3}});
    }
  }
  check_dense({{2, 8, 10, 48, 2}, {}, DtnVariant::kPaper, DType::kFloat32, {.channel_mean = 1e3}});
}

TEST(CudaDtnDense, ZeroWeightConstantRowsAndChannels) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    for (DType dtype : kTypes) {
      for (const Content& content : {Content{.zero_weight = true}, Content{.constant_rows = true},
                                     Content{.constant_channels = true}}) {
        check_dense({{2, 6, 4, 24, 3}, {DtnPositionKind::kTable, 2}, variant, dtype, content});
      }
    }
  }
}

// Large differences of scores: scores far below the largest one have no weight.
TEST(CudaDtnDense, LargeScores) {
  DTN_SKIP_WITHOUT_DEVICE();
  DenseProblem p({2, 5, 6, 24, 2}, {});
  for (std::size_t i = 0; i < p.dense.position_table.size(); ++i) {
    double& score = p.dense.position_table[i];
    score = static_cast<float>(score * 50 + (i / 30 % 2 ? 1e4 : -1e4));
  }
  p.weights = Twin(from_doubles(p.dense.position_table, p.weights.host().shape(), DType::kFloat32));
  check_dense(p);
}

TEST(CudaDtnDense, AccumulatesParameterGradientsAndAddsResidualGradient) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    for (DType dtype : kTypes) {
      for (DtnPositionKind kind : {DtnPositionKind::kRelative, DtnPositionKind::kTable}) {
        const DenseProblem p({2, 4, 6, 24, 3}, {kind, 2}, variant, dtype);
        DtnNormExpected want = oracle(p);
        const Twin residual = random_twin(p.image_shape(), dtype, 10);
        const Doubles added = doubles(residual.host());
        auto& g = want.gradients;
        for (std::size_t i = 0; i < added.size(); ++i) g.x[i] += added[i];
        for (Doubles* sum : {&g.weight, &g.bias, &g.lambda_mean, &g.lambda_var, &g.pos_weight,
                             &g.position_table}) {
          for (double& v : *sum) v *= 2;
        }
        for (bool in_place : {false, true}) {
          DenseOutputs o(p);
          run_all(cuda_queue(), p, o, kOnDevice);
          if (in_place) o.dx = random_twin(p.image_shape(), dtype, 10);
          DtnDenseBackward again = dense_backward_of(p, o, kOnDevice);
          again.norm.dx_add = in_place ? again.norm.dx : residual.at(kOnDevice);
          run(cuda_queue(), again);
          run(cuda_queue(), matrix_backward_of(p, o, kOnDevice));
          expect_dense(name_of(p) + " twice", p, o, want);
        }
      }
    }
  }
}

TEST(CudaDtnDense, AnyGradientIsOptional) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    for (DType dtype : kTypes) {
      const DenseProblem p({2, 4, 6, 24, 3}, {DtnPositionKind::kTable, 2}, variant, dtype);
      DenseOutputs o(p);
      run_all(cuda_queue(), p, o, kOnDevice);
      constexpr int kCount = 6;
      for (int i = 0; i < kCount; ++i) {  // all outputs except i, or output i alone
        for (bool alone : {false, true}) {
          DenseOutputs other(p);
          run(cuda_queue(), matrix_of(p, other, kOnDevice));
          run(cuda_queue(), dense_forward_of(p, other, kOnDevice));
          DtnDenseBackward b = dense_backward_of(p, other, kOnDevice);
          void** members[] = {&b.norm.dx,           &b.norm.dweight,     &b.norm.dbias,
                              &b.norm.dlambda_mean, &b.norm.dlambda_var, &b.dpositions};
          const Twin* got[] = {&other.dx,           &other.dweight,     &other.dbias,
                               &other.dlambda_mean, &other.dlambda_var, &other.dp};
          const Twin* all[] = {&o.dx, &o.dweight, &o.dbias, &o.dlambda_mean, &o.dlambda_var, &o.dp};
          auto left_out = [&](int k) { return (k == i) != alone; };
          for (int k = 0; k < kCount; ++k) {
            if (left_out(k)) *members[k] = nullptr;
          }
          run(cuda_queue(), b);
          for (int k = 0; k < kCount; ++k) {
            EXPECT_TRUE(
                same_bits(got[k]->device(), left_out(k) ? got[k]->host() : all[k]->device()))
                << "gradient " << k << (alone ? " beside " : " without ") << i;
          }
        }
      }
    }
  }
}

// Activations at addresses that no vector load can read.
TEST(CudaDtnDense, UnalignedImages) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    const DenseProblem p({1, 5, 4, 16, 2}, {}, DtnVariant::kPaper, dtype);
    DenseOutputs o(p), shifted(p);
    run_all(cuda_queue(), p, o, kOnDevice);
    const std::int64_t n = p.x.host().numel();
    auto shift = [&](const Tensor& from) {
      Doubles values = doubles(from);
      values.insert(values.begin(), 0.0);
      return Twin(from_doubles(values, {n + 1}, dtype));
    };
    const Twin x = shift(p.x.host()), dy = shift(p.dy.host());
    const Twin y = Twin::output({n + 1}, dtype), dx = Twin::output({n + 1}, dtype);
    auto at = [&](const Twin& t) {
      return static_cast<std::byte*>(t.at(kOnDevice)) + size_of(dtype);
    };
    run(cuda_queue(), matrix_of(p, shifted, kOnDevice));
    DtnDenseForward f = dense_forward_of(p, shifted, kOnDevice);
    f.norm.x = at(x), f.norm.y = at(y);
    run(cuda_queue(), f);
    DtnDenseBackward b = dense_backward_of(p, shifted, kOnDevice);
    b.norm.x = at(x), b.norm.dy = at(dy), b.norm.dx = at(dx);
    run(cuda_queue(), b);
    auto values = [&](const Twin& t) {
      Doubles all = doubles(t.device());
      all.erase(all.begin());
      return all;
    };
    const Tolerance allowed = tolerance(Path::kPlain, dtype);
    expect_close("dtn_dense", "unaligned y", o.y.device(), values(y), 2 * allowed.y);
    expect_close("dtn_dense", "unaligned dx", o.dx.device(), values(dx), 2 * allowed.dx);
  }
}

// A single NaN stays in its image and affects every token of its channel.
TEST(CudaDtnDense, NanPropagatesAsOnCpu) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    DenseProblem p({2, 4, 6, 16, 2}, {DtnPositionKind::kTable, 2}, variant);
    Doubles x = p.dense.x;
    x[p.dense.at(0, 7, 3)] = NAN;
    p.x = Twin(from_doubles(x, p.image_shape(), p.dtype));
    DenseOutputs o(p);
    run_all(cpu_queue(), p, o, kOnHost);
    run_all(cuda_queue(), p, o, kOnDevice);
    expect_close("dtn_dense", "nan", o.y.device(), doubles(o.y.host()), 2e-5);
    EXPECT_GT(std::count_if(x.begin(), x.end(), [](double v) { return std::isfinite(v); }), 0);
    EXPECT_TRUE(std::isnan(max_abs(doubles(o.y.device()))));
  }
}

TEST(CudaDtnDense, EmptyBatchIsNoOp) {
  DTN_SKIP_WITHOUT_DEVICE();
  const DenseProblem p({1, 2, 2, 4, 2}, {});
  DenseOutputs o(p);
  run(cuda_queue(), matrix_of(p, o, kOnDevice));
  DtnDenseForward f = dense_forward_of(p, o, kOnDevice);
  DtnDenseBackward b = dense_backward_of(p, o, kOnDevice);
  f.norm.batch = b.norm.batch = 0;
  run(cuda_queue(), f);
  run(cuda_queue(), b);
  EXPECT_TRUE(same_bits(o.y.device(), o.y.host()));
  EXPECT_TRUE(same_bits(o.dweight.device(), o.dweight.host()));
  EXPECT_EQ(max_abs(doubles(o.dp.device())), 0) << "a sum of nothing";
}

TEST(CudaDtnDense, RejectsUnsupportedTypes) {
  DTN_SKIP_WITHOUT_DEVICE();
  const DenseProblem p({1, 2, 2, 4, 2}, {});
  const DenseOutputs o(p);
  DtnDenseForward f = dense_forward_of(p, o, kOnDevice);
  DtnDenseBackward b = dense_backward_of(p, o, kOnDevice);
  f.norm.dtype = b.norm.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), f), Error);
  EXPECT_THROW(run(cuda_queue(), b), Error);
  for (DType dtype : {DType::kFloat64, DType::kBFloat16}) {
    DtnDensePositions m = matrix_of(p, o, kOnDevice);
    DtnDensePositionsBackward mb = matrix_backward_of(p, o, kOnDevice);
    m.dtype = mb.dtype = dtype;
    EXPECT_THROW(run(cuda_queue(), m), Error);
    EXPECT_THROW(run(cuda_queue(), mb), Error);
  }
}

}  // namespace
}  // namespace dtn::test
