#include <algorithm>
#include <cmath>
#include <span>

#include "apps/analyze/statistics.h"
#include "dtn/core/parallel.h"
#include "nn/norms/view_means.h"

namespace dtn {
namespace {

// Sums over the patch queries of one image and head.
struct HeadSums {
  double distance = 0, to_class = 0, entropy = 0;
};

// Data that all images of a batch share.
struct Problem {
  const AttentionView& view;
  bool class_token;
  Tensor queries, keys, bias;        // float64
  std::vector<std::int64_t> tokens;  // [G, n], tokens of each group; empty: one group of all tokens
  std::vector<double> regions;       // [G, n], region of each token; empty: no regions
  std::int64_t groups, group_queries, group_keys;
  // Position of each key token, in units of the queries' grid.
  std::vector<double> key_rows, key_columns;

  Problem(const AttentionView&, bool has_class_token);
  double uniform_entropy() const;
  std::int64_t heads() const { return view.how.heads; }
  std::int64_t token(std::int64_t g, std::int64_t i) const {
    return tokens.empty() ? i : tokens[static_cast<std::size_t>(g * group_queries + i)];
  }
};

Problem::Problem(const AttentionView& v, bool has_class_token)
    : view(v),
      class_token(has_class_token),
      queries(in_float64(v.queries)),
      keys(in_float64(v.keys)),
      bias(v.bias.defined() ? in_float64(v.bias) : Tensor()),
      groups(1),
      group_queries(v.queries.dim(1)),
      group_keys(v.keys.dim(1)) {
  if (v.how.groups) {
    const auto ids = v.how.groups->tokens.values<std::int64_t>();
    tokens.assign(ids.begin(), ids.end());
    groups = v.how.groups->count();
    group_queries = group_keys = v.how.groups->size();
    if (v.how.groups->has_regions()) {
      const auto of = v.how.groups->regions.values<float>();
      regions.assign(of.begin(), of.end());
    }
  }
  const TokenGrid& grid = v.key_grid;
  for (std::int64_t j = 0; j < grid.height * grid.width; ++j) {
    const std::int64_t row = j / grid.width, column = j % grid.width;
    key_rows.push_back(v.key_start + v.key_step * static_cast<double>(row));
    key_columns.push_back(v.key_start + v.key_step * static_cast<double>(column));
  }
}

// Mean over the queries of the entropy of equal weights of the keys that a query sees: the keys of
// its group, or of its region of the group if there are regions. Groups have only patches.
double Problem::uniform_entropy() const {
  if (regions.empty()) return std::log(static_cast<double>(group_keys));
  double sum = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::span<const double> of(regions.data() + g * group_keys,
                                     static_cast<std::size_t>(group_keys));
    for (const double region : of) {
      sum += std::log(static_cast<double>(std::ranges::count(of, region)));
    }
  }
  return sum / static_cast<double>(regions.size());
}

// Attention weights of one image, head and group, one query at a time.
class WeightRows {
 public:
  WeightRows(const Problem& p, std::int64_t image, std::int64_t head, std::int64_t group)
      : p_(p),
        image_(image),
        head_(head),
        group_(group),
        by_channel_(static_cast<std::size_t>(p.view.how.k.width * p.group_keys)),
        scores_(static_cast<std::size_t>(p.group_keys)),
        weights_(scores_.size()) {
    const std::int64_t width = p.view.how.k.width, row = p.keys.dim(2);
    for (std::int64_t j = 0; j < p.group_keys; ++j) {
      const double* key = p.keys.data<double>() +
                          (image * p.keys.dim(1) + p.token(group, j)) * row + p.view.how.k.first +
                          head * p.view.how.k.stride;
      for (std::int64_t c = 0; c < width; ++c) {
        by_channel_[static_cast<std::size_t>(c * p.group_keys + j)] = key[c];
      }
    }
  }

  // Returns the softmax of the scores of the group's i-th query; ln A = score - log_sum_.
  const std::vector<double>& weights(std::int64_t i) {
    score(i);
    const double top = *std::max_element(scores_.begin(), scores_.end());
    double sum = 0;
    for (std::size_t j = 0; j < scores_.size(); ++j) {
      sum += weights_[j] = std::exp(scores_[j] - top);
    }
    log_sum_ = top + std::log(sum);
    for (double& w : weights_) w /= sum;
    return weights_;
  }
  double entropy() const {
    double sum = 0;
    for (std::size_t j = 0; j < scores_.size(); ++j) {
      if (weights_[j] > 0) sum -= weights_[j] * (scores_[j] - log_sum_);
      if (std::isnan(weights_[j])) sum = weights_[j];
    }
    return sum;
  }

 private:
  void score(std::int64_t i) {
    const auto& how = p_.view.how;
    const double* query = p_.queries.data<double>() +
                          (image_ * p_.queries.dim(1) + p_.token(group_, i)) * p_.queries.dim(2) +
                          how.q.first + head_ * how.q.stride;
    std::ranges::fill(scores_, 0.0);
    for (std::int64_t c = 0; c < how.q.width; ++c) {
      const double q = how.scale * query[c];
      const double* keys = by_channel_.data() + c * p_.group_keys;
      for (std::size_t j = 0; j < scores_.size(); ++j) scores_[j] += q * keys[j];
    }
    if (p_.bias.defined()) {
      const double* bias = p_.bias.data<double>() + (head_ * p_.group_queries + i) * p_.group_keys;
      for (std::size_t j = 0; j < scores_.size(); ++j) scores_[j] += bias[j];
    }
    if (p_.regions.empty()) return;
    const double* region = p_.regions.data() + group_ * p_.group_keys;
    for (std::size_t j = 0; j < scores_.size(); ++j) {
      if (region[j] != region[i]) scores_[j] += ops::kRegionPenalty;
    }
  }

  const Problem& p_;
  std::int64_t image_, head_, group_;
  std::vector<double> by_channel_;  // keys [D, S]
  std::vector<double> scores_, weights_;
  double log_sum_ = 0;
};

// sum_j A_ij delta_ij over the patch keys, with their weights normalized to sum 1.
double distance_of(const Problem& p, std::int64_t group, std::int64_t query,
                   const std::vector<double>& weights) {
  const std::int64_t width = p.view.query_grid.width, at = query - p.view.query_grid.prefix;
  const std::int64_t of_row = at / width, of_column = at % width;
  const auto row = static_cast<double>(of_row), column = static_cast<double>(of_column);
  double sum = 0, whole = 0;
  for (std::int64_t j = 0; j < p.group_keys; ++j) {
    const std::int64_t key = p.token(group, j) - p.view.key_grid.prefix;
    if (key < 0) continue;
    const auto k = static_cast<std::size_t>(key);
    const double weight = weights[static_cast<std::size_t>(j)];
    sum += weight * std::hypot(p.key_rows[k] - row, p.key_columns[k] - column);
    whole += weight;
  }
  return sum / whole;
}

// Returns a head's sums, and adds its weights to the mean over heads, [Q, S], if `mean` is not
// empty.
HeadSums sums_of(const Problem& p, std::int64_t image, std::int64_t head,
                 std::vector<double>& mean) {
  HeadSums sums;
  for (std::int64_t g = 0; g < p.groups; ++g) {
    WeightRows rows(p, image, head, g);
    for (std::int64_t i = 0; i < p.group_queries; ++i) {
      const std::int64_t query = p.token(g, i);
      const bool is_patch = query >= p.view.query_grid.prefix;
      if (!is_patch && mean.empty()) continue;
      const std::vector<double>& weights = rows.weights(i);
      if (!mean.empty()) {
        double* to = mean.data() + i * p.group_keys;
        for (std::size_t j = 0; j < weights.size(); ++j) {
          to[j] += weights[j] / static_cast<double>(p.heads());
        }
      }
      if (!is_patch) continue;
      sums.distance += distance_of(p, g, query, weights);
      sums.entropy += rows.entropy();
      if (p.class_token) sums.to_class += weights[0];
    }
  }
  return sums;
}

bool fits_rollout(const AttentionView& view) {
  return !view.how.groups && view.query_grid == view.key_grid && view.key_step == 1;
}

}  // namespace

double uniform_distance(const TokenGrid& grid) {
  double sum = 0;
  for (std::int64_t dy = 1 - grid.height; dy < grid.height; ++dy) {
    for (std::int64_t dx = 1 - grid.width; dx < grid.width; ++dx) {
      const auto pairs =
          static_cast<double>((grid.height - std::abs(dy)) * (grid.width - std::abs(dx)));
      sum += pairs * std::hypot(static_cast<double>(dx), static_cast<double>(dy));
    }
  }
  const auto tokens = static_cast<double>(grid.height * grid.width);
  return sum / (tokens * tokens);
}

void AttentionStatistics::add(const AttentionView& view, std::int64_t first, bool class_token,
                              Rollout& rollout) {
  const Problem p(view, class_token && view.key_grid.prefix > 0);
  has_class_token_ = p.class_token;
  uniform_entropy_ = p.uniform_entropy();
  grid_ = view.query_grid;
  const auto heads = static_cast<std::size_t>(p.heads());
  const std::int64_t batch = view.queries.dim(0), tokens = view.queries.dim(1);
  if (!fits_rollout(view)) rollout.give_up();
  std::vector<HeadSums> sums(static_cast<std::size_t>(batch) * heads);
  parallel_for(batch, [&](std::int64_t image) {
    std::vector<double> mean;  // over heads
    const bool rolled = fits_rollout(view) && first + image < Rollout::kImages;
    if (rolled) mean.resize(static_cast<std::size_t>(tokens * tokens));
    for (std::size_t h = 0; h < heads; ++h) {
      sums[static_cast<std::size_t>(image) * heads + h] =
          sums_of(p, image, static_cast<std::int64_t>(h), mean);
    }
    if (rolled) rollout.add(first + image, mean, tokens);
  });
  distance.resize(heads);
  to_class.resize(heads);
  entropy.resize(heads);
  const auto patches = static_cast<double>(tokens - view.query_grid.prefix);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    distance[i % heads].add(sums[i].distance / patches);
    to_class[i % heads].add(sums[i].to_class / patches);
    entropy[i % heads].add(sums[i].entropy / patches);
  }
}

void Rollout::add(std::int64_t image, const std::vector<double>& weights, std::int64_t tokens) {
  Product& product = products_[static_cast<std::size_t>(image)];
  const auto n = static_cast<std::size_t>(tokens);
  const auto before = static_cast<std::size_t>(product.tokens), joined = n - before;
  std::vector<double> grown(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    if (i < joined || before == 0) {
      grown[i * n + i] = 1;
    } else {
      std::copy_n(product.r.begin() + static_cast<std::ptrdiff_t>((i - joined) * before), before,
                  grown.begin() + static_cast<std::ptrdiff_t>(i * n + joined));
    }
  }
  product = {tokens, std::vector<double>(n * n)};
  for (std::size_t i = 0; i < n; ++i) {
    double* to = product.r.data() + i * n;
    for (std::size_t k = 0; k < n; ++k) {
      const double m = weights[i * n + k] / 2 + (i == k ? 0.5 : 0);
      const double* from = grown.data() + k * n;
      for (std::size_t j = 0; j < n; ++j) to[j] += m * from[j];
    }
  }
}

std::vector<std::vector<double>> Rollout::shares(std::int64_t patches, bool of_first_token) const {
  std::vector<std::vector<double>> rows;
  if (given_up_) return rows;
  const auto count = static_cast<std::size_t>(patches);
  for (const Product& p : products_) {
    if (p.tokens == 0) break;
    const auto n = static_cast<std::size_t>(p.tokens), ahead = n - count;
    if (of_first_token && ahead == 0) return {};  // the class token joined after the last layer
    std::vector<double> row(count);
    double sum = 0;
    for (std::size_t i = of_first_token ? 0 : ahead; i < (of_first_token ? 1 : n); ++i) {
      for (std::size_t j = 0; j < count; ++j) row[j] += p.r[i * n + ahead + j];
    }
    for (const double share : row) sum += share;
    for (double& share : row) share /= sum;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace dtn
