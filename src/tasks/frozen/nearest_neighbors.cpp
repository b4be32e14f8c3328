#include "tasks/frozen/nearest_neighbors.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "kernels/gemm/gemm.h"

namespace dtn {
namespace {

constexpr std::int64_t kQueryBlock = 512, kBankBlock = 4096;  // similarities of a block: 8 MiB
constexpr std::int64_t kRanked = 5;

// float64, in four partial sums: the same for equal vectors, wherever they lie.
double dot(const float* a, const float* b, std::int64_t n) {
  double sums[4] = {};
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int lane = 0; lane < 4; ++lane) {
      sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    }
  }
  for (; i < n; ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// False for the norm of a row that is not finite, or so large that a float32 product may overflow.
bool is_comparable(double norm) { return norm < 1e18; }

std::vector<double> norms_of(const Tensor& rows) {
  const std::int64_t width = rows.dim(1);
  std::vector<double> norms(static_cast<std::size_t>(rows.dim(0)));
  parallel_ranges(rows.dim(0), 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* row = rows.data<float>() + i * width;
      norms[static_cast<std::size_t>(i)] = std::sqrt(dot(row, row, width));
    }
  });
  return norms;
}

// Returns the norms of rows, floored as in PyTorch's normalize(). Throws DataError for a row that
// is not comparable.
std::vector<double> checked_norms_of(const Tensor& rows, const char* name) {
  constexpr double kFloor = 1e-12;
  std::vector<double> norms = norms_of(rows);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (!is_comparable(norms[i])) {
      throw DataError(cat("the features of ", name, " image ", i, " are not finite"));
    }
    norms[i] = std::max(norms[i], kFloor);
  }
  return norms;
}

std::vector<float> inverses_of(const std::vector<double>& norms) {
  std::vector<float> result(norms.size());
  std::ranges::transform(norms, result.begin(), [](double n) { return static_cast<float>(1 / n); });
  return result;
}

// Bound of the difference between two similarities of float32 products and their true difference:
// each product is off by at most F u, u = 2^-24, and the scaling by a few u.
float margin_of(std::int64_t width) {
  return static_cast<float>(2 * static_cast<double>(width + 8) * 0x1p-24);
}

}  // namespace

bool are_comparable(const Tensor& features) {
  return std::ranges::all_of(norms_of(features), is_comparable);
}

std::optional<std::int64_t> Neighbors::vote(std::int64_t query) const {
  const std::int64_t ranked = ranking.dim(1);
  if (ranked == 0) return std::nullopt;
  return ranking.data<std::int64_t>()[query * ranked];
}

struct NearestNeighbors::Exact {
  double similarity;
  std::int64_t index;
};

// The rows of the bank that may be among the k nearest of one query.
struct NearestNeighbors::Candidates {
  struct Row {
    float similarity;
    std::int64_t index;
  };
  std::int64_t k = 0;
  std::int64_t own = -1;  // the row that is the query itself, never a candidate; -1: none
  std::vector<Row> rows;
  float floor = -std::numeric_limits<float>::infinity();  // rows below are not candidates
  std::size_t limit = 0;                                  // prune() at this size

  // Adds rows of the bank from `first` on: similarity = products * inverse norms.
  void add(const float* products, const float* inverse, float inverse_query, std::int64_t first,
           std::int64_t count, float margin) {
    constexpr std::int64_t kStep = 32;
    for (std::int64_t begin = 0; begin < count; begin += kStep) {
      const std::int64_t end = std::min(count, begin + kStep);
      bool any = false;
      for (std::int64_t j = begin; j < end; ++j) {
        any |= products[j] * inverse[j] * inverse_query >= floor;
      }
      if (!any) continue;
      for (std::int64_t j = begin; j < end; ++j) {
        const float similarity = products[j] * inverse[j] * inverse_query;
        if (similarity >= floor && first + j != own) rows.push_back({similarity, first + j});
      }
      if (rows.size() >= limit) prune(margin);
    }
  }

  // Drops the rows that are certainly not among the k nearest.
  void prune(float margin) {
    const auto nearest = static_cast<std::size_t>(k);
    if (rows.size() > nearest) {
      const auto last = rows.begin() + static_cast<std::ptrdiff_t>(k - 1);
      std::ranges::nth_element(rows, last, std::ranges::greater{}, &Row::similarity);
      floor = last->similarity - margin;
      std::erase_if(rows, [&](const Row& row) { return row.similarity < floor; });
    }
    limit = 2 * std::max(rows.size(), nearest + 256);
  }
};

NearestNeighbors::NearestNeighbors(const Tensor& features, const Tensor& labels,
                                   const NeighborOptions& options)
    : features_(features), options_(options) {
  DTN_CHECK(features.rank() == 2, "a bank needs features [N, F], not ",
            to_string(features.shape()));
  DTN_CHECK(!labels.defined() || labels.shape() == Shape{features.dim(0)}, "labels ",
            to_string(labels.shape()), " do not fit a bank of ", to_string(features.shape()));
  DTN_CHECK(options.k >= 1 && options.temperature > 0, "k ", options.k, " and temperature ",
            options.temperature, " must be positive");
  if (features.dim(0) == 0) throw DataError("k-NN needs at least one training image");
  if (labels.defined()) {
    std::ranges::copy(labels.values<std::int64_t>(), std::back_inserter(labels_));
    DTN_CHECK(std::ranges::min(labels_) >= 0, "a label of the bank is negative");
    classes_ = std::ranges::max(labels_) + 1;
  }
  norms_ = checked_norms_of(features, "training");
  inverses_ = inverses_of(norms_);
}

Neighbors NearestNeighbors::find(const Tensor& queries) const {
  return search(queries, {}, std::min(options_.k, features_.dim(0)));
}

Neighbors NearestNeighbors::find_others(const Tensor& queries,
                                        std::span<const std::int64_t> rows) const {
  DTN_CHECK(std::ssize(rows) == queries.dim(0), rows.size(), " rows of the bank for queries ",
            to_string(queries.shape()));
  const std::int64_t others = features_.dim(0) - 1;
  if (others == 0) throw DataError("k-NN among the training images needs at least two of them");
  return search(queries, rows, std::min(options_.k, others));
}

// Searches for k neighbours of each query. `rows`: positions of the queries in the bank; empty:
// they are not in it.
Neighbors NearestNeighbors::search(const Tensor& queries, std::span<const std::int64_t> rows,
                                   std::int64_t k) const {
  DTN_CHECK(queries.rank() == 2 && queries.dim(1) == features_.dim(1), "queries ",
            to_string(queries.shape()), " do not fit a bank of ", to_string(features_.shape()));
  const std::int64_t n = queries.dim(0), width = queries.dim(1);
  Neighbors out{Tensor::empty({n, k}, DType::kInt64), Tensor::empty({n, k}, DType::kFloat32),
                Tensor::empty({n, std::min(kRanked, classes_)}, DType::kInt64)};
  const std::vector<double> norms = checked_norms_of(queries, "evaluated");
  for (std::int64_t first = 0; first < n; first += kQueryBlock) {
    const std::int64_t last = std::min(n, first + kQueryBlock);
    const Tensor block = queries.slice(first, last);
    const std::vector<double> block_norms(norms.begin() + first, norms.begin() + last);
    std::vector<Candidates> found(static_cast<std::size_t>(last - first));
    for (std::size_t q = 0; q < found.size(); ++q) {
      found[q].k = k;
      if (!rows.empty()) found[q].own = rows[static_cast<std::size_t>(first) + q];
    }
    scan(block, block_norms, found);
    parallel_for(last - first, [&](std::int64_t q) {
      decide(block.data<float>() + q * width, block_norms[static_cast<std::size_t>(q)],
             found[static_cast<std::size_t>(q)], first + q, out);
    });
  }
  return out;
}

// Collects the candidates of a block of queries from all of the bank.
void NearestNeighbors::scan(const Tensor& queries, const std::vector<double>& norms,
                            std::vector<Candidates>& found) const {
  const std::int64_t n = queries.dim(0), width = queries.dim(1), size = features_.dim(0);
  const std::vector<float> inverse_query = inverses_of(norms);
  const float margin = margin_of(width);
  const std::int64_t ld = std::min(size, kBankBlock);
  Tensor products = Tensor::empty({n, ld}, DType::kFloat32);
  for (std::int64_t first = 0; first < size; first += kBankBlock) {
    const std::int64_t count = std::min(kBankBlock, size - first);
    run(cpu_queue(), Gemm{.dtype = DType::kFloat32,
                          .c_dtype = DType::kFloat32,
                          .m = n,
                          .n = count,
                          .k = width,
                          .a = queries.raw(),
                          .b = features_.data<float>() + first * width,
                          .c = products.raw(),
                          .lda = width,
                          .ldb = width,
                          .ldc = ld,
                          .transpose_b = true});
    parallel_for(n, [&](std::int64_t q) {
      const auto i = static_cast<std::size_t>(q);
      found[i].add(products.data<float>() + q * ld, inverses_.data() + first, inverse_query[i],
                   first, count, margin);
    });
  }
}

// Orders the candidates of a query, and writes its row of the result.
void NearestNeighbors::decide(const float* query, double norm, Candidates& found, std::int64_t row,
                              Neighbors& out) const {
  const std::int64_t k = found.k, width = features_.dim(1);
  found.prune(margin_of(width));
  std::vector<Exact> nearest;
  for (const Candidates::Row& candidate : found.rows) {
    const double product = dot(query, features_.data<float>() + candidate.index * width, width);
    const double norms = norm * norms_[static_cast<std::size_t>(candidate.index)];
    nearest.push_back({product / norms, candidate.index});
  }
  std::ranges::partial_sort(nearest, nearest.begin() + k, [](const Exact& a, const Exact& b) {
    return a.similarity != b.similarity ? a.similarity > b.similarity : a.index < b.index;
  });

  for (std::int64_t i = 0; i < k; ++i) {
    const Exact& neighbor = nearest[static_cast<std::size_t>(i)];
    out.indices.data<std::int64_t>()[row * k + i] = neighbor.index;
    out.similarities.data<float>()[row * k + i] = static_cast<float>(neighbor.similarity);
  }
  if (labels_.empty()) return;
  nearest.resize(static_cast<std::size_t>(k));
  rank(nearest, row, out);
}

// Counts the votes of the neighbours of a query, and writes its row of the ranking.
void NearestNeighbors::rank(const std::vector<Exact>& nearest, std::int64_t row,
                            Neighbors& out) const {
  std::vector<double> votes(static_cast<std::size_t>(classes_));
  for (const Exact& neighbor : nearest) {
    // A common factor does not change the ranking, and keeps small temperatures from overflowing.
    const double relative = neighbor.similarity - nearest.front().similarity;
    votes[static_cast<std::size_t>(labels_[static_cast<std::size_t>(neighbor.index)])] +=
        std::exp(relative / options_.temperature);
  }
  std::vector<std::int64_t> ranking(votes.size());
  std::iota(ranking.begin(), ranking.end(), std::int64_t{0});
  const std::int64_t ranked = out.ranking.dim(1);
  std::ranges::partial_sort(ranking, ranking.begin() + ranked, [&](std::int64_t a, std::int64_t b) {
    const double x = votes[static_cast<std::size_t>(a)], y = votes[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::copy_n(ranking.begin(), ranked, out.ranking.data<std::int64_t>() + row * ranked);
}

NeighborHits hits_of(const Neighbors& neighbors, const Tensor& labels) {
  const std::int64_t n = labels.numel(), ranked = neighbors.ranking.dim(1);
  DTN_CHECK(neighbors.ranking.dim(0) == n, n, " labels for ", neighbors.ranking.dim(0), " queries");
  NeighborHits hits{.count = n};
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t* ranking = neighbors.ranking.data<std::int64_t>() + i * ranked;
    const std::int64_t label = labels.data<std::int64_t>()[i];
    hits.top1 += ranking[0] == label;
    hits.top5 += std::find(ranking, ranking + ranked, label) != ranking + ranked;
  }
  return hits;
}

Metrics accuracy_of(const NeighborHits& hits) {
  const double percent = 100.0 / static_cast<double>(std::max<std::int64_t>(hits.count, 1));
  const double top1 = percent * static_cast<double>(hits.top1);
  const double top5 = percent * static_cast<double>(hits.top5);
  return {.values = {{"top1", top1}, {"top5", top5}},
          .primary = "top1",
          .text = format("top-1 %.2f %%  top-5 %.2f %%", top1, top5)};
}

}  // namespace dtn
