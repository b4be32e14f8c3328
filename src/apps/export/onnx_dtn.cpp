// Dynamic Token Normalization in ONNX. The positions are constant in evaluation mode. Their softmax
// is computed here. Where it factorises (see norms/dtn.h), it is stored as two small matrices per
// head, one per axis of the grid. With pooling, two similar products first average the cells, and
// the rows of the matrices are repeated, so that every token has the statistics of its cell.
//
// Heads are separate everywhere, [N, H, h, w, D]. With the pivot p (the mean over the tokens) and s
// = x - p,
//   x - mu = s - (1 - l_mu) P s - l_mu (mu_ln - p)
// LayerNorm with the same weights normalizes the tokens in front of the grid (prefix: ln).
#include <cmath>
#include <functional>
#include <optional>

#include "apps/export/onnx_norms.h"
#include "dtn/core/check.h"
#include "nn/norms/dtn.h"

namespace dtn::onnx {
namespace {

using Doubles = std::vector<double>;

// Repeats each row of a [heads, rows, columns] matrix `times` times.
Doubles repeated(const Doubles& matrix, std::int64_t columns, std::int64_t times) {
  Doubles result;
  for (auto row = matrix.begin(); row != matrix.end(); row += columns) {
    for (std::int64_t i = 0; i < times; ++i) result.insert(result.end(), row, row + columns);
  }
  return result;
}

void softmax_rows(Doubles& matrix, std::int64_t columns) {
  for (auto row = matrix.begin(); row != matrix.end(); row += columns) {
    const double most = *std::max_element(row, row + columns);
    double sum = 0;
    for (auto v = row; v != row + columns; ++v) sum += * v = std::exp(*v - most);
    for (auto v = row; v != row + columns; ++v) *v /= sum;
  }
}

// Returns the matrix [n / size, n] that averages each cell of `size` tokens.
Doubles averages(std::int64_t n, std::int64_t size) {
  Doubles matrix(static_cast<std::size_t>(n / size * n));
  for (std::int64_t t = 0; t < n; ++t) {
    matrix[static_cast<std::size_t>(t / size * n + t)] = 1.0 / static_cast<double>(size);
  }
  return matrix;
}

class DtnGraph {
 public:
  explicit DtnGraph(const Norm& n)
      : n_(n),
        g_(n.g),
        options_(n.config),
        heads_(n.place.heads),
        head_dim_(n.place.channels / heads_),
        h_(n.place.grid.height),
        w_(n.place.grid.width) {}

  // x [N, h w, C] -> [N, h w, C]
  Value of(const Value& x) {
    make_positions();
    const bool official = options_.variant == DtnVariant::kOfficial;
    Value heads = transpose(g_, reshape(g_, x, {0, h_, w_, heads_, head_dim_}), {0, 3, 1, 2, 4});
    if (official) heads = n_.over_deviation(heads, mean(g_, square(g_, heads), {4}));

    const Value token_mean = mean(g_, heads, {1, 4});  // [N, 1, h, w, 1]
    Value token_var = mean(g_, square(g_, sub(g_, heads, token_mean)), {1, 4});
    if (official) {  // over C - 1
      const auto c = static_cast<double>(n_.place.channels);
      token_var = scaled(g_, token_var, c / (c - 1));
    }
    const Value pivot = mean(g_, heads, {2, 3});  // [N, H, 1, 1, D]
    const Value s = sub(g_, heads, pivot);
    const Value cells = averaged(s);
    const Value m1 = across_tokens(cells);
    Value v1 = sub(g_, across_tokens(square(g_, cells)), square(g_, m1));
    if (!official) v1 = g_.node("Relu", {v1});

    const auto [of_mean, rest_of_mean] =
        lambda("mean_norm_weight", options_.only_var ? 1.0 : options_.lambda);
    const auto [of_var, rest_of_var] = lambda("var_norm_weight", options_.lambda);
    Value centred = sub(g_, s, mul(g_, m1, rest_of_mean));
    centred = sub(g_, centred, mul(g_, sub(g_, token_mean, pivot), of_mean));
    const Value var = add(g_, mul(g_, token_var, of_var), mul(g_, v1, rest_of_var));
    const Value xhat = transpose(g_, n_.over_deviation(centred, var), {0, 2, 3, 1, 4});
    return n_.weighted(reshape(g_, xhat, {0, h_ * w_, n_.place.channels}));
  }

 private:
  std::string name(const std::string& part) const { return n_.name(part); }

  // lambda and 1 - lambda, [H, 1, 1, 1].
  std::pair<Value, Value> lambda(const std::string& logit, std::optional<double> fixed) {
    Doubles l(static_cast<std::size_t>(heads_), fixed.value_or(0)), rest;
    if (!fixed) {
      l = n_.values(logit);
      for (double& v : l) v = 1 / (1 + std::exp(-v));
    }
    for (double v : l) rest.push_back(1 - v);
    const Shape shape = {heads_, 1, 1, 1};
    return {g_.tensor(name(logit + ".lambda"), constant(l, shape)),
            g_.tensor(name(logit + ".rest"), constant(rest, shape))};
  }

  // Returns softmax over j of a_d (j - i)^2 + a (j - i), [H, n, n]; uniform positions have zero
  // weights.
  Doubles axis_positions(std::int64_t n, int axis) const {
    Doubles matrix;
    const double sign = options_.variant == DtnVariant::kOfficial ? -1 : 1;
    const Tensor* stored = n_.weights.find(name("pos_proj.weight"));
    for (std::int64_t head = 0; head < heads_; ++head) {
      const float* a = stored ? stored->data<float>() + 3 * head : nullptr;
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const auto d = static_cast<double>(j - i);
          matrix.push_back(a ? a[2] * d * d + sign * a[axis] * d : 0.0);
        }
      }
    }
    softmax_rows(matrix, n);
    return matrix;
  }

  // Returns P of all cells where it does not factorise: [H, n, n], or [1, n, n] for all heads.
  Doubles dense_positions(std::int64_t n) const {
    if (options_.position == DtnOptions::Position::kFree) {
      Doubles table = n_.values("position_table");
      softmax_rows(table, n);
      return table;
    }
    Doubles band;
    const std::int64_t half = (options_.band - 1) / 2;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t first = std::max<std::int64_t>(i - half, 0);
      const std::int64_t last = std::min(i + half, n - 1);
      for (std::int64_t j = 0; j < n; ++j) {
        band.push_back(first <= j && j <= last ? 1.0 / static_cast<double>(last - first + 1) : 0);
      }
    }
    return band;  // the same for every head
  }

  void make_positions() {
    const std::int64_t pool = options_.pool, rows = h_ / pool, columns = w_ / pool;
    if (!options_.separable()) {
      const std::int64_t n = rows * columns;
      const Doubles p = dense_positions(n);
      const auto of_heads = static_cast<std::int64_t>(p.size()) / (n * n);
      dense_ = g_.tensor(name("positions"), constant(spread(p, n), {of_heads, h_ * w_, n}));
      return;
    }
    py_ = g_.tensor(name("positions_y"),
                    constant(repeated(axis_positions(rows, 1), rows, pool), {heads_, h_, rows}));
    px_ = g_.tensor(
        name("positions_x"),
        constant(repeated(axis_positions(columns, 0), columns, pool), {heads_, 1, w_, columns}));
  }

  // Expands the rows of P, [.., n cells, n], to all tokens: each token has the row of its cell.
  Doubles spread(const Doubles& p, std::int64_t n) const {
    Doubles result;
    for (auto head = p.begin(); head != p.end(); head += n * n) {
      for (std::int64_t t = 0; t < h_ * w_; ++t) {
        const std::int64_t cell =
            t / w_ / options_.pool * (w_ / options_.pool) + t % w_ / options_.pool;
        result.insert(result.end(), head + cell * n, head + (cell + 1) * n);
      }
    }
    return result;
  }

  // Multiplies x [N, H, rows, columns, D] by one matrix per axis: [.., to_rows, rows] and [..,
  // to_columns, columns].
  Value product(const Value& x, const Value& of_rows, const Value& of_columns, std::int64_t rows,
                std::int64_t columns, std::int64_t to_rows) {
    const Value flat = reshape(g_, x, {0, heads_, rows, columns * head_dim_});
    const Value done = matmul(g_, of_rows, flat);
    return matmul(g_, of_columns, reshape(g_, done, {0, heads_, to_rows, columns, head_dim_}));
  }

  // Returns the mean of each cell.
  Value averaged(const Value& x) {
    const std::int64_t pool = options_.pool;
    if (pool == 1) return x;
    const Value rows = g_.tensor(name("average_y"), constant(averages(h_, pool), {h_ / pool, h_}));
    const Value columns =
        g_.tensor(name("average_x"), constant(averages(w_, pool), {w_ / pool, w_}));
    return product(x, rows, columns, h_, w_, h_ / pool);
  }

  // Returns P x, from cells to tokens.
  Value across_tokens(const Value& cells) {
    const std::int64_t rows = h_ / options_.pool, columns = w_ / options_.pool;
    if (dense_.empty()) return product(cells, py_, px_, rows, columns, h_);
    const Value flat = reshape(g_, cells, {0, heads_, rows * columns, head_dim_});
    return reshape(g_, matmul(g_, dense_, flat), {0, heads_, h_, w_, head_dim_});
  }

  const Norm& n_;
  Graph& g_;
  DtnOptions options_;
  std::int64_t heads_, head_dim_, h_, w_;
  Value py_, px_, dense_;  // positions: two matrices, or one
};

}  // namespace

Value dynamic_token_norm(const Norm& n, const Value& x) {
  DtnGraph dtn(n);
  const NormPlace& place = n.place;
  const std::int64_t prefix = place.tokens - place.grid.height * place.grid.width;
  if (prefix == 0) return dtn.of(x);
  const std::string* rule = n.config.find<std::string>("prefix");
  DTN_CHECK(rule && *rule == "ln", place.path, ": dtn with ", prefix, " tokens beside the grid");
  const Value first = layer_norm(n, slice(n.g, x, 1, 0, prefix));
  return concat(n.g, {first, dtn.of(slice(n.g, x, 1, prefix, place.tokens))}, 1);
}

}  // namespace dtn::onnx
