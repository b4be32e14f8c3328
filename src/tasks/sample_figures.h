// Figures of evaluated samples, for meters that report means over the samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtn/dist/communicator.h"

namespace dtn {

// A table with a row for each sample. Sums run in the order of the samples' positions in the data
// set, so they do not depend on batches and ranks.
class SampleFigures {
 public:
  explicit SampleFigures(std::size_t columns) : columns_(columns) {}

  // Adds a row of `columns` figures of the sample at this position.
  void add(std::int64_t index, std::span<const double> figures);
  // Adds the rows of the other ranks and orders all of them.
  void merge(Communicator& ranks);

  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  // The mean of a column; 0 without samples.
  double mean(std::size_t column) const;
  // The mean over the samples whose figure is not NaN; NaN if there are none.
  double mean_of_defined(std::size_t column) const;

 private:
  struct Row {
    std::int64_t index;
    std::vector<double> figures;
  };

  std::size_t columns_;
  std::vector<Row> rows_;
};

}  // namespace dtn
