#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "apps/analyze/collector.h"
#include "apps/analyze/measurements.h"
#include "apps/analyze/moments.h"

namespace dtn {
namespace {

// [B, T, C] -> [B T, C], or the mean tokens [B, C].
Tensor samples_of(const Tensor& x, bool means) {
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), channels = x.dim(2);
  if (!means) return x.reshape({batch * tokens, channels});
  Tensor rows = Tensor::zeros({batch, channels}, DType::kFloat64);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    rows.data<double>()[i / (tokens * channels) * channels + i % channels] +=
        x.data<double>()[i] / static_cast<double>(tokens);
  }
  return rows;
}

// Columns and products of one model's layers so far, for samples of one kind.
struct Side {
  bool means;
  std::vector<Columns> columns{};
  std::vector<ColumnProduct> products{};  // of each layer with itself
  std::vector<Tensor> batch{};            // shifted rows of the last batch

  void add(const std::vector<Tensor>& stream) {
    columns.resize(stream.size());
    products.resize(stream.size());
    batch.resize(stream.size());
    for (std::size_t l = 0; l < stream.size(); ++l) {
      batch[l] = columns[l].shifted(samples_of(stream[l], means));
      products[l].add_square(batch[l]);
    }
  }
  double norm(std::size_t l) const {
    return std::sqrt(squared_norm(products[l].centred(columns[l], columns[l])));
  }
};

struct Pair {
  std::size_t a, b;
  bool means, fits = true;
  std::vector<ColumnProduct> products{};  // [(L_a + 1) (L_b + 1)]

  void add(const Side& x, const Side& y) {
    fits = fits && x.batch[0].dim(0) == y.batch[0].dim(0);
    if (!fits) return;
    products.resize(x.batch.size() * y.batch.size());
    for (std::size_t i = 0; i < x.batch.size(); ++i) {
      for (std::size_t j = 0; j < y.batch.size(); ++j) {
        products[i * y.batch.size() + j].add(x.batch[i], y.batch[j]);
      }
    }
  }

  Similarity result(const Side& x, const Side& y) const {
    Similarity similarity{a, b, {}};
    if (!fits) return similarity;
    std::vector<double> of_y;
    for (std::size_t j = 0; j < y.columns.size(); ++j) of_y.push_back(y.norm(j));
    for (std::size_t i = 0; i < x.columns.size(); ++i) {
      const double of_x = x.norm(i);
      auto& row = similarity.matrix.emplace_back();
      for (std::size_t j = 0; j < of_y.size(); ++j) {
        const Tensor xy = products[i * of_y.size() + j].centred(x.columns[i], y.columns[j]);
        row.push_back(linear_cka(xy, of_x, of_y[j]));
      }
    }
    return similarity;
  }
};

}  // namespace

std::vector<Similarity> similarities(const std::vector<OpenSubject>& subjects,
                                     AnalysisInputs& inputs) {
  std::vector<Pair> pairs;
  std::vector<std::array<Side, 2>> sides;  // tokens, means
  for (std::size_t b = 0; b < subjects.size(); ++b) {
    sides.push_back({Side{.means = false}, Side{.means = true}});
    for (std::size_t a = 0; a < b; ++a) {
      pairs.push_back({a, b, subjects[a].staged() || subjects[b].staged()});
    }
  }
  if (pairs.empty()) return {};
  const auto wanted = [&](std::size_t subject, bool means) {
    return std::ranges::any_of(pairs, [&](const Pair& p) {
      return (p.a == subject || p.b == subject) && p.means == means;
    });
  };
  inputs.each_batch([&](const Fields& batch) {
    for (std::size_t s = 0; s < subjects.size(); ++s) {
      StreamCapture capture;
      subjects[s].forward(batch, &capture);
      const std::vector<Tensor> stream = capture.take();
      for (Side& side : sides[s]) {
        if (wanted(s, side.means)) side.add(stream);
      }
    }
    for (Pair& p : pairs) p.add(sides[p.a][p.means], sides[p.b][p.means]);
  });
  std::vector<Similarity> results;
  std::ranges::sort(pairs, {}, [](const Pair& p) { return std::pair(p.a, p.b); });
  for (const Pair& p : pairs) results.push_back(p.result(sides[p.a][p.means], sides[p.b][p.means]));
  return results;
}

}  // namespace dtn
