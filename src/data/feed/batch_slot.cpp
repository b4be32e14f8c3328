#include "data/feed/batch_slot.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace dtn {

BatchSlot::BatchSlot(const std::vector<FieldSpec>& fields, std::int64_t most_rows,
                     const HostMemory& memory)
    : specs_(fields),
      most_rows_(most_rows),
      indices_(static_cast<std::size_t>(most_rows)),
      good_(static_cast<std::size_t>(most_rows)) {
  for (const FieldSpec& spec : specs_) fields_[spec.name] = allocate_rows(spec, most_rows, memory);
}

void BatchSlot::begin(std::int64_t count) {
  count_ = remaining_ = count;
  error_ = nullptr;
}

void BatchSlot::set_row(std::int64_t row, std::int64_t index, bool good) {
  indices_[static_cast<std::size_t>(row)] = index;
  good_[static_cast<std::size_t>(row)] = good;
}

void BatchSlot::finish(std::int64_t rows, std::exception_ptr error, std::int64_t error_row) {
  remaining_ -= rows;
  if (!error || (error_ && error_row_ <= error_row)) return;
  error_ = std::move(error);
  error_row_ = error_row;
}

bool BatchSlot::has_good_rows() const {
  const auto end = good_.begin() + count_;
  return !error_ && std::find(good_.begin(), end, 1) != end;
}

void BatchSlot::hand_over(const HostMemory& memory, Batch& batch) {
  batch.indices.clear();
  batch.n = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(count_); ++row) {
    if (good_[row]) batch.indices.push_back(indices_[row]);
  }
  prepare_exchange(memory, batch.fields);
  batch.n = static_cast<std::int64_t>(batch.indices.size());
  for (auto& [name, ours] : fields_) {
    keep_good(ours);
    Tensor& theirs = batch.fields[name];
    std::swap(ours, theirs);
    if (batch.n < most_rows_) theirs = theirs.slice(0, batch.n);
  }
}

// Gives `theirs` tensors that this slot can continue with, and no other fields.
void BatchSlot::prepare_exchange(const HostMemory& memory, Fields& theirs) const {
  const bool same =
      std::ranges::equal(theirs, fields_, {}, &Fields::Field::first, &Fields::Field::first);
  if (!same) theirs = Fields();
  for (const FieldSpec& spec : specs_) {
    const Tensor& ours = fields_.at(spec.name);
    Tensor& tensor = theirs[spec.name];
    const bool reusable = tensor.defined() && tensor.unique() && tensor.shape() == ours.shape() &&
                          tensor.dtype() == ours.dtype() && tensor.device() == kCpu;
    if (reusable) continue;
    // Freed first, so that the allocator's cache can serve the next line.
    tensor = Tensor();
    tensor = allocate_rows(spec, most_rows_, memory);
  }
}

void BatchSlot::keep_good(Tensor& tensor) const {
  auto* bytes = static_cast<std::byte*>(tensor.raw());
  const std::size_t each = tensor.nbytes() / static_cast<std::size_t>(most_rows_);
  std::size_t n = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(count_); ++row) {
    if (!good_[row]) continue;
    if (n != row) std::memcpy(bytes + n * each, bytes + row * each, each);
    ++n;
  }
}

}  // namespace dtn
