#include "tasks/neighbors_meter.h"

#include <algorithm>
#include <numeric>

#include "dtn/dist/communicator.h"

namespace dtn {
namespace {

// Returns the rows of all ranks, in rank order. The ranks may have different numbers of rows, but
// rows of the same length.
template <class T>
std::vector<T> gather_rows(const std::vector<T>& own, const std::vector<std::int64_t>& counts,
                           std::int64_t row, Communicator& ranks) {
  const std::int64_t most = std::ranges::max(counts);
  Tensor padded = Tensor::zeros({std::max<std::int64_t>(most * row, 1)}, DTypeOf<T>::value);
  std::ranges::copy(own, padded.data<T>());
  const Tensor all = ranks.all_gather(padded);
  std::vector<T> joined;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const T* from = all.data<T>() + static_cast<std::int64_t>(r) * padded.numel();
    joined.insert(joined.end(), from, from + counts[r] * row);
  }
  return joined;
}

// Returns the value that each rank has.
std::vector<std::int64_t> of_each_rank(std::int64_t own, Communicator& ranks) {
  const Tensor all = ranks.all_gather(Tensor::from(std::vector<std::int64_t>{own}, {1}));
  const auto values = all.values<std::int64_t>();
  return {values.begin(), values.end()};
}

}  // namespace

void NeighborsMeter::Rows::add(const Fields& batch, const Fields& outputs) {
  const auto append = [](auto& to, const auto& values) {
    to.insert(to.end(), values.begin(), values.end());
  };
  append(features, outputs.at("features").values<float>());
  append(labels, batch.at("label").values<std::int64_t>());
  append(indices, batch.at("index").values<std::int64_t>());
}

Tensor NeighborsMeter::Rows::feature_tensor() const {
  return Tensor::from(features, {count(), static_cast<std::int64_t>(features.size()) / count()});
}

void NeighborsMeter::add_reference(const Fields& batch, const Fields& outputs) {
  bank_.add(batch, outputs);
}

void NeighborsMeter::add(const Fields& batch, const Fields& outputs) {
  queries_.add(batch, outputs);
}

// Returns the rows of all ranks in the order of the data set.
NeighborsMeter::Rows NeighborsMeter::gathered(const Rows& own, Communicator& ranks) {
  const std::vector<std::int64_t> counts = of_each_rank(own.count(), ranks);
  const auto widths = of_each_rank(
      own.count() > 0 ? static_cast<std::int64_t>(own.features.size()) / own.count() : 0, ranks);
  const std::int64_t width = std::ranges::max(widths);
  const std::vector<float> features = gather_rows(own.features, counts, width, ranks);
  const std::vector<std::int64_t> labels = gather_rows(own.labels, counts, 1, ranks);
  const std::vector<std::int64_t> indices = gather_rows(own.indices, counts, 1, ranks);
  std::vector<std::size_t> order(indices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return indices[i]; });
  Rows all;
  all.features.reserve(features.size());
  for (const std::size_t i : order) {
    const auto row = features.begin() + static_cast<std::ptrdiff_t>(i) * width;
    all.features.insert(all.features.end(), row, row + width);
    all.labels.push_back(labels[i]);
    all.indices.push_back(indices[i]);
  }
  return all;
}

NeighborHits NeighborsMeter::count_hits() const {
  if (queries_.count() == 0) return {};
  const NearestNeighbors neighbors(bank_.feature_tensor(),
                                   Tensor::from(bank_.labels, {bank_.count()}), options_);
  return hits_of(neighbors.find(queries_.feature_tensor()),
                 Tensor::from(queries_.labels, {queries_.count()}));
}

// Each rank classifies its own samples by the references of all ranks.
void NeighborsMeter::merge(Communicator& ranks) {
  if (ranks.is_single()) return;
  bank_ = gathered(bank_, ranks);
  const NeighborHits own = count_hits();
  merged_ = NeighborHits{ranks.sum(own.top1), ranks.sum(own.top5), ranks.sum(own.count)};
}

Metrics NeighborsMeter::result() const { return accuracy_of(merged_ ? *merged_ : count_hits()); }

}  // namespace dtn
