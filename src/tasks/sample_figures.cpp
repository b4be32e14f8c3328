#include "tasks/sample_figures.h"

#include <algorithm>
#include <cmath>

#include "dtn/core/check.h"

namespace dtn {

void SampleFigures::add(std::int64_t index, std::span<const double> figures) {
  DTN_CHECK(figures.size() == columns_, figures.size(), " figures of a sample, not ", columns_);
  rows_.push_back({index, {figures.begin(), figures.end()}});
}

void SampleFigures::merge(Communicator& ranks) {
  if (ranks.is_single()) return;
  // Gathers the number of samples of each rank, then their rows.
  const Tensor own_count = Tensor::full({1}, DType::kInt64, static_cast<double>(size()));
  const Tensor counts = ranks.all_gather(own_count);
  const std::int64_t most = std::ranges::max(counts.values<std::int64_t>());
  const auto width = static_cast<std::int64_t>(columns_ + 1);
  Tensor own = Tensor::zeros({most, width}, DType::kFloat64);
  double* to = own.data<double>();
  for (const Row& row : rows_) {
    *to++ = static_cast<double>(row.index);
    to = std::ranges::copy(row.figures, to).out;
  }
  const Tensor all = ranks.all_gather(own);
  rows_.clear();
  for (int r = 0; r < ranks.size(); ++r) {
    const double* from = all.data<double>() + r * most * width;
    for (std::int64_t i = 0; i < counts.data<std::int64_t>()[r]; ++i, from += width) {
      rows_.push_back({static_cast<std::int64_t>(from[0]), {from + 1, from + width}});
    }
  }
  std::ranges::stable_sort(rows_, {}, &Row::index);
}

double SampleFigures::mean(std::size_t column) const {
  const auto n = static_cast<double>(rows_.size());
  double mean = 0;
  for (const Row& row : rows_) mean += row.figures[column] / n;
  return mean;
}

double SampleFigures::mean_of_defined(std::size_t column) const {
  double sum = 0, count = 0;
  for (const Row& row : rows_) {
    if (std::isnan(row.figures[column])) continue;
    sum += row.figures[column];
    ++count;
  }
  return sum / count;
}

}  // namespace dtn
