// Batches of samples on the host.
#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include "data/feed/field_buffers.h"

namespace dtn {

struct Batch {
  Fields fields;                      // fields that the source carries, n rows each
  std::vector<std::int64_t> indices;  // [n], in the data set
  std::int64_t n = 0;
  std::int64_t number = 0;  // position in the epoch; to resume after it, start at number + 1
};

// A batch that is being made or is ready. Workers fill different rows at once, without a lock. The
// loader's lock guards counts and error.
class BatchSlot {
 public:
  BatchSlot(const std::vector<FieldSpec>& fields, std::int64_t most_rows, const HostMemory& memory);

  // Begins a batch of `count` rows.
  void begin(std::int64_t count);
  std::int64_t count() const { return count_; }

  // set_row() records the sample of a row. A row that is not good stays out of the batch.
  Fields& fields() { return fields_; }
  void set_row(std::int64_t row, std::int64_t index, bool good);

  // Marks `rows` rows as done. The exception of the lowest failing row is kept.
  void finish(std::int64_t rows, std::exception_ptr error, std::int64_t error_row);
  bool is_whole() const { return remaining_ == 0; }
  const std::exception_ptr& error() const { return error_; }
  bool has_good_rows() const;

  // Moves the good rows to the front and swaps the tensors with those of the batch. Tensors of the
  // batch that are held elsewhere are first replaced by new ones. All steps that may fail come
  // before the slot changes, so a caller may try again.
  void hand_over(const HostMemory& memory, Batch& batch);

 private:
  void prepare_exchange(const HostMemory& memory, Fields& theirs) const;
  void keep_good(Tensor& tensor) const;

  std::vector<FieldSpec> specs_;
  std::int64_t most_rows_;
  Fields fields_;                      // most_rows_ rows each
  std::vector<std::int64_t> indices_;  // [most_rows_]
  std::vector<std::uint8_t> good_;     // [most_rows_], 0: left out
  std::int64_t count_ = 0, remaining_ = 0;
  std::exception_ptr error_;
  std::int64_t error_row_ = 0;
};

}  // namespace dtn
