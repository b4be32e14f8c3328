// Operations around DTN in a model: a residual sum before it, and learned lambdas. The bits are the
// same whether the DTN passes compute them or separate kernels do.
#include <algorithm>
#include <cmath>

#include "cuda/kernels/dtn_norm_problem.h"
#include "cuda/kernels/dtn_warps.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::test {
namespace {

constexpr DType kFloat = DType::kFloat32;
// Random streams of the initial values of the lambda gradients and of the column sums.
constexpr std::uint32_t kMeanStart = 31, kVarStart = 32, kSumsStart = 33;

// A problem whose x is a sum and whose lambdas are learned.
struct PrologueCase {
  DtnNormProblem problem;
  bool scaled;
  Twin residual, branch, scale, mean_logit, var_logit, dx_add;

  PrologueCase(const ShapeCase& shape, DtnVariant variant, DType dtype, bool with_scale)
      : problem(shape, variant, dtype),
        scaled(with_scale),
        residual(random_twin(problem.image_shape(), dtype, 21, 1, 2)),
        branch(random_twin(problem.image_shape(), dtype, 22)),
        scale(random_twin({shape.batch}, kFloat, 23, 0.5, 1)),
        mean_logit(random_twin({shape.heads}, kFloat, 24, 2)),
        var_logit(random_twin({shape.heads}, kFloat, 25, 2)),
        dx_add(random_twin(problem.image_shape(), dtype, 26)) {}

  std::int64_t count() const { return residual.host().numel(); }
  std::int64_t image() const { return count() / problem.dense.batch; }
};

// Results of both passes: x and the lambdas in addition to the outputs.
struct Results {
  DtnNormProblem problem;  // with the x and lambdas of this run
  Outputs outputs;
  Twin dbranch, dbranch_sums;

  explicit Results(const PrologueCase& s)
      : problem(s.problem),
        outputs(s.problem),
        dbranch(Twin::output(s.problem.image_shape(), s.problem.dtype)),
        dbranch_sums(Twin::accumulated({s.problem.dense.channels}, kFloat, kSumsStart)) {
    problem.x = Twin::output(s.problem.image_shape(), s.problem.dtype);
    problem.lambda_mean = Twin::output({s.problem.dense.heads}, kFloat);
    problem.lambda_var = Twin::output({s.problem.dense.heads}, kFloat);
    outputs.dlambda_mean = Twin::accumulated({s.problem.dense.heads}, kFloat, kMeanStart);
    outputs.dlambda_var = Twin::accumulated({s.problem.dense.heads}, kFloat, kVarStart);
  }

  DtnNormBackward backward(const PrologueCase& s, Where w) const {
    DtnNormBackward args = backward_of(problem, outputs, w);
    args.dx_add = s.dx_add.at(w);
    return args;
  }
  // Results that both ways have in common: all except the lambda gradients, which one way replaces
  // by the gradients of the logits.
  std::vector<Tensor> shared(Where w) const {
    const Outputs& o = outputs;
    std::vector<Tensor> all;
    for (const Twin* t : {&o.y, &o.token_mean, &o.token_var, &o.pivot, &o.dx, &o.dweight, &o.dbias,
                          &o.dpos_weight, &problem.x, &problem.lambda_mean, &problem.lambda_var}) {
      all.push_back(w == kOnDevice ? t->device() : t->host());
    }
    return all;
  }
};

template <class Queue>
Results run_separate(Queue& queue, const PrologueCase& s, Where w) {
  Results r(s);
  const DtnNormProblem& p = r.problem;
  if (s.scaled) {
    run(queue, ScaleRows{p.dtype, s.count(), s.image(), s.scale.at(w), s.branch.at(w),
                         s.residual.at(w), p.x.at(w)});
  } else {
    run(queue, Add{p.dtype, s.count(), s.residual.at(w), s.branch.at(w), p.x.at(w)});
  }
  run(queue, Sigmoid{kFloat, p.dense.heads, s.mean_logit.at(w), p.lambda_mean.at(w)});
  run(queue, Sigmoid{kFloat, p.dense.heads, s.var_logit.at(w), p.lambda_var.at(w)});
  run(queue, forward_of(p, r.outputs, w));
  run(queue, r.backward(s, w));
  if (s.scaled) {
    run(queue, ScaleRows{p.dtype, s.count(), s.image(), s.scale.at(w), r.outputs.dx.at(w), nullptr,
                         r.dbranch.at(w)});
  }
  return r;
}

template <class Queue>
Results run_fused(Queue& queue, const PrologueCase& s, Where w) {
  Results r(s);
  const DtnNormProblem& p = r.problem;
  DtnNormForward forward = forward_of(p, r.outputs, w);
  forward.logits = {s.mean_logit.at(w), s.var_logit.at(w), p.lambda_mean.at(w), p.lambda_var.at(w)};
  forward.sum = {s.residual.at(w), s.branch.at(w), s.scaled ? s.scale.at(w) : nullptr, p.x.at(w)};
  run(queue, forward);
  DtnNormBackward backward = r.backward(s, w);
  backward.by_logits = true;
  if (s.scaled) {
    backward.dbranch = r.dbranch.at(w);
    backward.dbranch_sums = r.dbranch_sums.at(w);
    backward.branch_scale = s.scale.at(w);
  }
  run(queue, backward);
  return r;
}

void expect_logit_gradients(const std::string& what, const Results& got, const Results& want,
                            Where w) {
  auto values = [w](const Twin& t) { return doubles(w == kOnDevice ? t.device() : t.host()); };
  auto expect = [&](const char* name, const Twin& gradient, const Twin& of_lambda, const Twin& l,
                    std::uint32_t start) {
    const Doubles lambda = values(l), direct = values(of_lambda);
    Doubles expected = doubles(Twin::accumulated(l.host().shape(), kFloat, start).host());
    for (std::size_t h = 0; h < expected.size(); ++h) {
      expected[h] += (direct[h] - expected[h]) * lambda[h] * (1 - lambda[h]);
    }
    expect_close("dtn_norm", cat(what, " ", name),
                 w == kOnDevice ? gradient.device() : gradient.host(), expected,
                 rounding_bound(kFloat, 4));
  };
  expect("mean_logit", got.outputs.dlambda_mean, want.outputs.dlambda_mean, got.problem.lambda_mean,
         kMeanStart);
  expect("var_logit", got.outputs.dlambda_var, want.outputs.dlambda_var, got.problem.lambda_var,
         kVarStart);
}

// Checks the column sums of dbranch, which may be summed before dbranch is rounded.
void expect_sums(const std::string& what, const PrologueCase& s, const Results& got, Where w) {
  auto values = [w](const Twin& t) { return doubles(w == kOnDevice ? t.device() : t.host()); };
  const Doubles dbranch = values(got.dbranch);
  const auto channels = static_cast<std::size_t>(s.problem.dense.channels);
  Doubles expected =
      doubles(Twin::accumulated({s.problem.dense.channels}, kFloat, kSumsStart).host());
  Doubles sizes(channels, 1.0);
  for (std::size_t i = 0; i < dbranch.size(); ++i) {
    expected[i % channels] += dbranch[i];
    sizes[i % channels] += std::abs(dbranch[i]);
  }
  const auto rows = static_cast<std::int64_t>(dbranch.size() / channels);
  expect_close("dtn_norm", cat(what, " dbranch_sums"),
               w == kOnDevice ? got.dbranch_sums.device() : got.dbranch_sums.host(), expected,
               rounding_bound(kFloat, rows) + unit_roundoff(s.problem.dtype),
               *std::ranges::max_element(sizes));
}

void expect_same(const std::string& what, const std::vector<Tensor>& got,
                 const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(same_bits(got[i], want[i])) << what << ": result " << i;
  }
}

// The first shape runs under every schedule, the others once. They cover one image in a warp's last
// slice, more values per lane, and heads that tensor cores do not support.
constexpr ShapeCase kShapes[] = {
    {2, 5, 7, 24, 3}, {2, 14, 14, 48, 3}, {1, 4, 3, 288, 4}, {1, 2, 3, 528, 2}, {2, 3, 2, 15, 3}};

std::vector<PrologueCase> cases() {
  std::vector<PrologueCase> all;
  for (const ShapeCase& shape : kShapes) {
    for (DType dtype : kTypes) {
      for (bool scaled : {true, false}) all.emplace_back(shape, DtnVariant::kPaper, dtype, scaled);
    }
  }
  all.emplace_back(kShapes[0], DtnVariant::kOfficial, kFloat, true);
  return all;
}

void expect_same_bits_fused(const PrologueCase& s, Path path) {
  const std::string what = s.problem.name(name_of(path));
  SCOPED_TRACE(cat(what, s.scaled ? " scaled" : ""));
  const auto body = [&] {
    const Results want = run_separate(cuda_queue(), s, kOnDevice);
    const Results got = run_fused(cuda_queue(), s, kOnDevice);
    expect_same(what, got.shared(kOnDevice), want.shared(kOnDevice));
    expect_logit_gradients(what, got, want, kOnDevice);
    std::vector<Tensor> all = got.shared(kOnDevice);
    if (s.scaled) {
      expect_same(what, {got.dbranch.device()}, {want.dbranch.device()});
      expect_sums(what, s, got, kOnDevice);
      all.push_back(got.dbranch_sums.device());
    }
    return all;
  };
  if (s.problem.dense.channels == kShapes[0].channels) {
    under_every_schedule(body);
  } else {
    body();
  }
}

TEST(CudaDtnPrologue, SameBitsAsSeparateKernels) {
  DTN_SKIP_WITHOUT_DEVICE();
  int on_tensor_cores = 0;
  for (const PrologueCase& s : cases()) {
    on_each_path(s.problem, [&](Path path) {
      on_tensor_cores += path == Path::kTensor;
      expect_same_bits_fused(s, path);
    });
  }
  EXPECT_EQ(on_tensor_cores, 4 * 4);
}

TEST(CudaDtnPrologue, TwelveWarpsSameBitsAsSeparateKernels) {
  DTN_SKIP_WITHOUT_DEVICE();
  const ScopedBackwardWarps twelve(12);
  for (const PrologueCase& s : cases()) {
    const bool taken = s.problem.dtype == DType::kBFloat16 && s.problem.dense.channels % 8 == 0;
    if (taken) expect_same_bits_fused(s, Path::kTensor);
  }
}

TEST(CudaDtnPrologue, HostMatchesSeparateKernels) {
  for (const PrologueCase& s : cases()) {
    SCOPED_TRACE(s.problem.name("host"));
    const Results want = run_separate(cpu_queue(), s, kOnHost),
                  got = run_fused(cpu_queue(), s, kOnHost);
    expect_same("host", got.shared(kOnHost), want.shared(kOnHost));
    expect_logit_gradients("host", got, want, kOnHost);
    if (!s.scaled) continue;
    expect_same("host", {got.dbranch.host()}, {want.dbranch.host()});
    expect_sums("host", s, got, kOnHost);
  }
}

}  // namespace
}  // namespace dtn::test
