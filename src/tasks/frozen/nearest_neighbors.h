// Classification by the nearest training features, as DINO evaluates them: the k most similar
// features vote for their classes, each with the weight exp(similarity / temperature). The
// similarity is the cosine.
//
// Features of an untrained network differ by less than the rounding of a float32 product. A float32
// product therefore only selects candidates, with a margin that bounds its error. Their order
// follows from products in float64. The result is that of an exact computation, for any number of
// threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dtn/core/metrics.h"
#include "dtn/core/tensor.h"

namespace dtn {

struct NeighborOptions {
  std::int64_t k = 20;
  double temperature = 0.07;
};

// Neighbours of n queries, on the host.
struct Neighbors {
  Tensor indices;  // [n, k] int64, rows of the bank; the most similar first, then the lower row
  Tensor similarities;  // [n, k] float32
  Tensor ranking;       // [n, min(5, classes)] int64: the classes with most votes, then the lower

  // The class with most votes of a query; unset: the bank has no labels.
  std::optional<std::int64_t> vote(std::int64_t query) const;
};

// Returns true if k-NN can compare the features [n, F] float32, on the host: they are finite, and
// small enough for float32 products.
bool are_comparable(const Tensor& features);

class NearestNeighbors {
 public:
  // The bank: features [N, F] float32 and their labels [N] int64, at least 0, on the host;
  // undefined labels: unknown, so nothing votes. The features need not be normalised; the object
  // keeps the tensor and does not change it. If N is below k, all N vote. Throws DataError if there
  // is no feature, or one that is not comparable.
  NearestNeighbors(const Tensor& features, const Tensor& labels,
                   const NeighborOptions& options = {});

  // queries [n, F] float32 on the host.
  Neighbors find(const Tensor& queries) const;
  // The same for queries that are rows of the bank themselves: `rows` [n] are their positions. No
  // query is its own neighbour, so there are at most N - 1. Throws DataError if N is 1.
  Neighbors find_others(const Tensor& queries, std::span<const std::int64_t> rows) const;

  // The largest label + 1; 0 without labels.
  std::int64_t classes() const { return classes_; }

 private:
  struct Exact;
  struct Candidates;
  Neighbors search(const Tensor& queries, std::span<const std::int64_t> rows, std::int64_t k) const;
  void scan(const Tensor& queries, const std::vector<double>& norms,
            std::vector<Candidates>& found) const;
  void decide(const float* query, double norm, Candidates& found, std::int64_t row,
              Neighbors& out) const;
  void rank(const std::vector<Exact>& nearest, std::int64_t row, Neighbors& out) const;

  Tensor features_;
  std::vector<std::int64_t> labels_;
  NeighborOptions options_;
  std::int64_t classes_ = 0;
  std::vector<double> norms_;    // of the features
  std::vector<float> inverses_;  // 1 / norm
};

// Queries whose class has the most votes, or is among the five classes with most votes.
struct NeighborHits {
  std::int64_t top1 = 0, top5 = 0, count = 0;
};
// For labels [n] int64 of the queries. A class beyond the ranking is not a hit.
NeighborHits hits_of(const Neighbors& neighbors, const Tensor& labels);
// `top1` and `top5` in percent.
Metrics accuracy_of(const NeighborHits& hits);

}  // namespace dtn
