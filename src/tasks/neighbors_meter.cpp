#include "tasks/neighbors_meter.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "dtn/core/check.h"
#include "dtn/dist/communicator.h"
#include "tasks/frozen/neighbor_examples.h"

namespace dtn {
namespace {

// Returns the value that each rank has.
std::vector<std::int64_t> of_each_rank(std::int64_t own, Communicator& ranks) {
  const Tensor all = ranks.all_gather(Tensor::from(std::vector<std::int64_t>{own}, {1}));
  const auto values = all.values<std::int64_t>();
  return {values.begin(), values.end()};
}

// Returns the values of all ranks in rank order; rank r has counts[r].
std::vector<std::int64_t> of_all_ranks(const std::vector<std::int64_t>& own,
                                       const std::vector<std::int64_t>& counts,
                                       Communicator& ranks) {
  const std::int64_t most = std::max<std::int64_t>(std::ranges::max(counts), 1);
  Tensor padded = Tensor::zeros({most}, DType::kInt64);
  std::ranges::copy(own, padded.data<std::int64_t>());
  const Tensor all = ranks.all_gather(padded);
  std::vector<std::int64_t> joined;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const std::int64_t* from = all.data<std::int64_t>() + static_cast<std::int64_t>(r) * most;
    joined.insert(joined.end(), from, from + counts[r]);
  }
  return joined;
}

// Returns the place of each value in ascending order. Equal values keep their order.
std::vector<std::int64_t> places_of(const std::vector<std::int64_t>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<std::int64_t> places(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) places[order[i]] = static_cast<std::int64_t>(i);
  return places;
}

// Hands out the rows of batches in their order, and drops each batch after its last row.
class RowReader {
 public:
  explicit RowReader(std::vector<Tensor>& batches) : batches_(batches) {}

  // Copies the next rows, [count, F].
  void read(std::int64_t count, float* to) {
    while (count > 0) {
      Tensor& batch = batches_[batch_];
      const std::int64_t n = std::min(count, batch.dim(0) - row_), width = batch.dim(1);
      to = std::copy_n(batch.data<float>() + row_ * width, n * width, to);
      count -= n;
      row_ += n;
      if (row_ < batch.dim(0)) continue;
      batch = Tensor();
      ++batch_;
      row_ = 0;
    }
  }

 private:
  std::vector<Tensor>& batches_;
  std::size_t batch_ = 0;
  std::int64_t row_ = 0;
};

// Numbers of rows of the ranks, and the place of each row, in rank order.
struct RowLayout {
  std::vector<std::int64_t> counts, places;
  std::int64_t width = 0;

  std::int64_t first_of(std::size_t rank) const {
    return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(rank),
                           std::int64_t{0});
  }
};

// Returns the rows of all ranks at their places, [N, F]. Gathers a block of rows at a time, because
// a communicator has a limit, and drops the batches on the way.
Tensor gather_features(std::vector<Tensor>& batches, const RowLayout& layout,
                       std::int64_t block_bytes, Communicator& ranks) {
  const std::int64_t width = layout.width, most = std::ranges::max(layout.counts);
  const std::int64_t own = layout.counts[static_cast<std::size_t>(ranks.rank())];
  const std::int64_t row_bytes =
      width * static_cast<std::int64_t>(sizeof(float)) * std::int64_t{ranks.size()};
  const std::int64_t block = std::clamp<std::int64_t>(
      block_bytes / std::max<std::int64_t>(row_bytes, 1), 1, std::max<std::int64_t>(most, 1));
  Tensor all =
      Tensor::empty({static_cast<std::int64_t>(layout.places.size()), width}, DType::kFloat32);
  RowReader reader(batches);
  for (std::int64_t first = 0; first < most; first += block) {
    Tensor part = Tensor::zeros({block, width}, DType::kFloat32);
    reader.read(std::clamp<std::int64_t>(own - first, 0, block), part.data<float>());
    const Tensor parts = ranks.all_gather(part);
    for (std::size_t r = 0; r < layout.counts.size(); ++r) {
      const std::int64_t rows = std::clamp<std::int64_t>(layout.counts[r] - first, 0, block);
      const std::int64_t* places = layout.places.data() + layout.first_of(r) + first;
      const float* from = parts.data<float>() + static_cast<std::int64_t>(r) * part.numel();
      for (std::int64_t i = 0; i < rows; ++i) {
        std::copy_n(from + i * width, width, all.data<float>() + places[i] * width);
      }
    }
  }
  return all;
}

Metrics unknown_accuracy() {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  return {.values = {{"top1", kUnknown}, {"top5", kUnknown}},
          .primary = "top1",
          .text = "no accuracy, because features are not finite"};
}

}  // namespace

void NeighborsMeter::Rows::add(const Fields& batch, const Fields& outputs) {
  const auto append = [](std::vector<std::int64_t>& to, const Tensor& values) {
    const auto from = values.values<std::int64_t>();
    to.insert(to.end(), from.begin(), from.end());
  };
  features.push_back(outputs.at("features").clone());
  append(labels, batch.at("label"));
  append(indices, batch.at("index"));
}

void NeighborsMeter::add_reference(const Fields& batch, const Fields& outputs) {
  references_.add(batch, outputs);
}

void NeighborsMeter::add(const Fields& batch, const Fields& outputs) {
  queries_.add(batch, outputs);
}

bool NeighborsMeter::is_comparable() const {
  return std::ranges::all_of(references_.features, are_comparable) &&
         std::ranges::all_of(queries_.features, are_comparable);
}

// Returns the references of all ranks in the order of the data set, and drops those of this rank.
NeighborsMeter::Bank NeighborsMeter::gather_bank(Communicator& ranks) {
  RowLayout layout{.counts = of_each_rank(references_.count(), ranks), .places = {}};
  layout.width = std::ranges::max(
      of_each_rank(references_.features.empty() ? 0 : references_.features.front().dim(1), ranks));
  const std::vector<std::int64_t> labels = of_all_ranks(references_.labels, layout.counts, ranks);
  const std::vector<std::int64_t> indices = of_all_ranks(references_.indices, layout.counts, ranks);
  Bank bank{.features = {},
            .labels = Tensor::empty({std::ssize(labels)}, DType::kInt64),
            .indices = Tensor::empty({std::ssize(labels)}, DType::kInt64)};
  layout.places = places_of(indices);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    bank.labels.data<std::int64_t>()[layout.places[i]] = labels[i];
    bank.indices.data<std::int64_t>()[layout.places[i]] = indices[i];
  }
  bank.features = gather_features(references_.features, layout, gathered_bytes_, ranks);
  references_ = {};
  return bank;
}

// Classifies the samples of this rank, and drops their features.
NeighborHits NeighborsMeter::count_hits(const NearestNeighbors& neighbors) {
  const std::int64_t count = queries_.count();
  if (count == 0) return {};
  Tensor features = Tensor::empty({count, queries_.features.front().dim(1)}, DType::kFloat32);
  RowReader(queries_.features).read(count, features.data<float>());
  const Tensor labels = Tensor::from(queries_.labels, {count});
  queries_ = {};
  return hits_of(neighbors.find(features), labels);
}

// Finds the neighbours of some samples of all ranks. The choice does not depend on the ranks.
void NeighborsMeter::find_examples(const NearestNeighbors& neighbors, const Bank& bank,
                                   Communicator& ranks) {
  const std::vector<std::int64_t> counts = of_each_rank(queries_.count(), ranks);
  const std::vector<std::int64_t> labels = of_all_ranks(queries_.labels, counts, ranks);
  const std::vector<std::int64_t> indices = of_all_ranks(queries_.indices, counts, ranks);
  std::vector<std::int64_t> sorted_labels(labels.size()), sorted_indices(labels.size());
  const std::vector<std::int64_t> places = places_of(indices);
  for (std::size_t i = 0; i < places.size(); ++i) {
    sorted_labels[static_cast<std::size_t>(places[i])] = labels[i];
    sorted_indices[static_cast<std::size_t>(places[i])] = indices[i];
  }
  std::vector<std::int64_t> shown_labels, shown_indices, rows;
  for (const std::int64_t row : example_rows({sorted_indices, sorted_labels})) {
    rows.push_back(std::ssize(rows));
    shown_labels.push_back(sorted_labels[static_cast<std::size_t>(row)]);
    shown_indices.push_back(sorted_indices[static_cast<std::size_t>(row)]);
  }
  // One rank has the features of a sample; the others add zeros.
  const std::int64_t width = bank.features.dim(1);
  Tensor features = Tensor::zeros({std::ssize(rows), width}, DType::kFloat32);
  std::int64_t first = 0;
  for (const Tensor& batch : queries_.features) {
    for (std::int64_t i = 0; i < batch.dim(0); ++i) {
      const std::int64_t index = queries_.indices[static_cast<std::size_t>(first + i)];
      const auto found = std::ranges::find(shown_indices, index);
      if (found == shown_indices.end()) continue;
      std::copy_n(batch.data<float>() + i * width, width,
                  features.data<float>() + (found - shown_indices.begin()) * width);
    }
    first += batch.dim(0);
  }
  for (const std::int64_t row : rows) ranks.all_reduce(features.slice(row, row + 1));
  examples_ =
      neighbor_examples(neighbors.find(features), rows, {shown_indices, shown_labels},
                        {bank.indices.values<std::int64_t>(), bank.labels.values<std::int64_t>()});
}

// Each rank classifies its own samples by the references of all ranks.
void NeighborsMeter::merge(Communicator& ranks) {
  const bool is_empty = ranks.sum(queries_.count()) == 0;
  if (ranks.any(!is_comparable()) || is_empty) {
    merged_ = unknown_accuracy();
    return;
  }
  const Bank bank = gather_bank(ranks);
  const NearestNeighbors neighbors(bank.features, bank.labels, options_);
  find_examples(neighbors, bank, ranks);
  const NeighborHits own = count_hits(neighbors);
  merged_ = accuracy_of({ranks.sum(own.top1), ranks.sum(own.top5), ranks.sum(own.count)});
}

Metrics NeighborsMeter::result() const {
  if (merged_) return *merged_;
  NeighborsMeter alone = *this;
  Communicator single;
  alone.merge(single);
  return *alone.merged_;
}

}  // namespace dtn
