#include "tasks/frozen/neighbor_examples.h"

#include <algorithm>
#include <utility>

#include "data/classes/draw_over_classes.h"

namespace dtn {
namespace {

SimilarSample sample_at(const FeatureRows& rows, std::int64_t row, double similarity) {
  const auto i = static_cast<std::size_t>(row);
  SimilarSample sample{.index = rows.indices[i], .label = {}, .similarity = similarity};
  if (!rows.labels.empty()) sample.label = rows.labels[i];
  return sample;
}

}  // namespace

std::vector<std::int64_t> example_rows(const FeatureRows& queries) {
  constexpr std::int64_t kExamples = 12;
  constexpr std::uint64_t kSeed = 0;
  if (!queries.labels.empty()) return draw_over_classes(queries.labels, kExamples, kSeed);
  return draw_over_classes(std::vector<std::int64_t>(queries.indices.size(), 0), kExamples, kSeed);
}

std::vector<NeighborExample> neighbor_examples(const Neighbors& found,
                                               std::span<const std::int64_t> rows,
                                               const FeatureRows& queries,
                                               const FeatureRows& bank) {
  constexpr std::int64_t kNearest = 5;
  const std::int64_t k = found.indices.dim(1);
  std::vector<NeighborExample> examples;
  for (const std::int64_t row : rows) {
    NeighborExample example{
        .sample = sample_at(queries, row, 1), .vote = found.vote(row), .nearest = {}};
    for (std::int64_t i = row * k; i < row * k + std::min(k, kNearest); ++i) {
      example.nearest.push_back(sample_at(bank, found.indices.data<std::int64_t>()[i],
                                          found.similarities.data<float>()[i]));
    }
    examples.push_back(std::move(example));
  }
  std::ranges::stable_sort(examples, {}, [](const NeighborExample& e) {
    return std::pair(e.sample.label.value_or(0), e.sample.index);
  });
  return examples;
}

}  // namespace dtn
