#include "kernels/optimizer/muon.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "kernels/gemm/gemm.h"
#include "optim/entries.h"

namespace dtn {
namespace {

constexpr int kIterations = 5;
constexpr double kMinNorm = 1e-7;

// Coefficients of a X + b (X X^T) X + c (X X^T)^2 X.
struct Polynomial {
  double a, b, c;
};

std::span<const Polynomial> polynomials(NsCoefficients which) {
  constexpr Polynomial kOriginal = {3.4445, -4.7750, 2.0315};
  static constexpr std::array<Polynomial, kIterations> kSame = {kOriginal, kOriginal, kOriginal,
                                                                kOriginal, kOriginal};
  static constexpr std::array<Polynomial, kIterations> kQuintic = {{{4.0848, -6.8946, 2.9270},
                                                                    {3.9505, -6.3029, 2.6377},
                                                                    {3.7418, -5.5913, 2.3037},
                                                                    {2.8769, -3.1427, 1.2046},
                                                                    {2.8366, -3.0525, 1.2012}}};
  return which == NsCoefficients::kQuintic ? kQuintic : kSame;
}

// Returns true for a weight of a block that multiplies tokens. Muon updates these weights, and
// AdamW updates all other parameters.
bool is_moved_as_matrix(const Parameter& p) {
  constexpr std::string_view kNames[] = {"attn.qkv.weight", "attn.proj.weight", "mlp.fc1.weight",
                                         "mlp.fc2.weight"};
  return p.shape.rank() == 2 && p.name.starts_with("blocks.") &&
         std::ranges::any_of(kNames, [&](std::string_view n) { return p.name.ends_with(n); });
}

struct Matrix {
  std::int64_t begin, rows, cols;  // begin: first element, counted from the start of the range
  std::int64_t count() const { return rows * cols; }
};

// The parts of a range: matrices for Muon, the rest for AdamW.
struct Shares {
  std::vector<Matrix> matrices;
  std::vector<std::pair<std::int64_t, std::int64_t>> rest;  // between the matrices
};

Shares shares_of(const ParameterRange& range, const ParameterStore& store) {
  Shares shares;
  bool follows = false;  // true: the previous tensor belongs to the rest
  for (const auto& [begin, end] : range.tensors) {
    const auto p = std::ranges::find(store.parameters(), range.begin + begin, &Parameter::offset);
    const bool is_matrix = is_moved_as_matrix(*p);
    if (is_matrix) {
      shares.matrices.push_back({begin, p->shape[0], p->shape[1]});
    } else if (follows) {
      shares.rest.back().second = end;
    } else {
      shares.rest.emplace_back(begin, end);
    }
    follows = !is_matrix;
  }
  return shares;
}

// Sizes of a product of op(a) [m, k] and op(b) [k, n], both dense.
struct Sides {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
};
void multiply(const Tensor& a, const Tensor& b, Tensor& c, const Sides& s) {
  Gemm g{};
  g.dtype = g.c_dtype = DType::kFloat32;
  g.m = s.m, g.n = s.n, g.k = s.k;
  g.a = a.raw(), g.b = b.raw(), g.c = c.raw();
  g.lda = s.transpose_a ? s.m : s.k;
  g.ldb = s.transpose_b ? s.k : s.n;
  g.ldc = s.n;
  g.transpose_a = s.transpose_a, g.transpose_b = s.transpose_b;
  run_on(a.device(), g);
}

void add_diagonal(const Tensor& x, Tensor& y, double scale, double diagonal) {
  run_on(x.device(), AddDiagonal{x.dim(0), static_cast<const float*>(x.raw()),
                                 static_cast<float*>(y.raw()), scale, diagonal});
}

void divide_by_norm(Tensor& x) {
  Tensor squares = Tensor::empty({1}, DType::kFloat64, x.device());
  auto* sum = static_cast<double*>(squares.raw());
  auto* values = static_cast<float*>(x.raw());
  run_on(x.device(), SumSquares{x.numel(), values, sum});
  run_on(x.device(), DivideByNorm{x.numel(), values, sum, kMinNorm});
}

// Returns x [rows, cols] float32 with its singular values moved close to 1. Overwrites x. The
// factor has the size of the shorter side, and multiplies from the left or from the right:
//    (X X^T) X = X (X^T X)
Tensor orthogonalized(Tensor x, std::span<const Polynomial> steps) {
  const std::int64_t rows = x.dim(0), cols = x.dim(1), side = std::min(rows, cols);
  const bool tall = rows > cols;
  Tensor next = Tensor::empty_like(x);
  Tensor square = Tensor::empty({side, side}, DType::kFloat32, x.device());
  Tensor factor = Tensor::empty_like(square), product = Tensor::empty_like(square);
  divide_by_norm(x);
  for (const Polynomial& s : steps) {
    multiply(x, x, square, {side, side, tall ? rows : cols, tall, !tall});
    add_diagonal(square, factor, s.c, s.b);  // b I + c A
    multiply(factor, square, product, {side, side, side});
    add_diagonal(product, product, 1, s.a);  // a I + b A + c A^2
    tall ? multiply(x, product, next, {rows, cols, side})
         : multiply(product, x, next, {rows, cols, side});
    std::swap(x, next);
  }
  return x;
}

class Muon : public Optimizer {
 public:
  Muon(const OptimConfig& config, ParameterStore& store)
      : Optimizer(config, store, {"exp_avg", "exp_avg_sq"}) {
    std::size_t matrices = 0;
    for (const ParameterRange& range : ranges()) {
      shares_.push_back(shares_of(range, store));
      matrices += shares_.back().matrices.size();
    }
    if (matrices > 0 || store.parameters().empty()) return;
    throw ConfigError(
        "optim.name: muon updates the matrices blocks.<number>.{attn.qkv,attn.proj,mlp.fc1,mlp.fc2}"
        ".weight, but the model has no trainable one; use another optimizer");
  }

 private:
  void update(const OptimizerUpdate& u) override {
    const Shares& shares = shares_[u.range];
    for (const auto& [begin, end] : shares.rest) update_rest(part_of(u, begin, end));
    for (const Matrix& m : shares.matrices) {
      update_matrix(part_of(u, m.begin, m.begin + m.count()), m);
    }
  }

  static OptimizerUpdate part_of(OptimizerUpdate u, std::int64_t begin, std::int64_t end) {
    u.values = u.values.slice(begin, end);
    u.gradients = u.gradients.slice(begin, end);
    if (u.bfloat16_values.defined()) u.bfloat16_values = u.bfloat16_values.slice(begin, end);
    for (Tensor& state : u.state) state = state.slice(begin, end);
    return u;
  }

  void update_rest(const OptimizerUpdate& u) {
    AdamWStep args{};
    set_adam(args, u, config());
    run_on(device(), args);
  }

  void update_matrix(const OptimizerUpdate& u, const Matrix& m) {
    Tensor step = Tensor::empty({m.rows, m.cols}, DType::kFloat32, device());
    MuonMomentum momentum{};
    momentum.count = m.count();
    momentum.m = state_of(u, 0);
    momentum.grad = static_cast<const float*>(u.gradients.raw());
    momentum.update = static_cast<float*>(step.raw());
    momentum.momentum = config().momentum.value();
    momentum.nesterov = config().nesterov.value_or(true);
    momentum.grad_scale = u.grad_scale;
    momentum.state = u.decision;
    run_on(device(), momentum);
    const NsCoefficients which = config().ns_coefficients.value_or(NsCoefficients::kOriginal);
    step = orthogonalized(step, polynomials(which));
    MuonStep args{};
    set_common(args, u);
    args.update = static_cast<const float*>(step.raw());
    args.scale = scale_of(m);
    run_on(device(), args);
  }

  double scale_of(const Matrix& m) const {
    const auto rows = static_cast<double>(m.rows), cols = static_cast<double>(m.cols);
    if (config().muon_scale == MuonScale::kOriginal) return std::sqrt(std::max(1.0, rows / cols));
    return 0.2 * std::sqrt(std::max(rows, cols));  // matches the size of an AdamW step
  }

  std::vector<Shares> shares_;  // one per range
};

}  // namespace

OptimizerEntry muon_entry() {
  OptimizerEntry row = optimizer_entry<Muon>(
      "muon", "orthogonalised momentum for the matrices of blocks, AdamW for the rest");
  row.schema.reads = {"betas", "eps", "momentum", "nesterov", "ns_coefficients", "muon_scale"};
  row.schema.check = check_nesterov;
  row.schema.defaults = [](OptimConfig& config) {
    config.beta2 = 0.95;
    config.momentum = 0.95;
  };
  return row;
}

}  // namespace dtn
