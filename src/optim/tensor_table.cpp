#include "optim/tensor_table.h"

#include <algorithm>

namespace dtn {
namespace {

constexpr std::int64_t kChunkFields = 3;
static_assert(sizeof(TensorChunk) == kChunkFields * sizeof(std::int64_t));

}  // namespace

TensorTable::TensorTable(const std::vector<std::pair<std::int64_t, std::int64_t>>& tensors,
                         Device device) {
  std::vector<std::int64_t> chunks, first_chunk{0};
  std::int64_t tensor = 0;
  for (const auto& [begin, end] : tensors) {
    for (std::int64_t i = begin; i < end; i += kTensorChunk) {
      chunks.insert(chunks.end(), {i, std::min(i + kTensorChunk, end), tensor});
    }
    first_chunk.push_back(static_cast<std::int64_t>(chunks.size()) / kChunkFields);
    ++tensor;
  }
  chunks_ = Tensor::from(chunks, {first_chunk.back(), kChunkFields}).to(device);
  first_chunk_ = Tensor::from(first_chunk, {tensor + 1}).to(device);
}

TensorChunks TensorTable::chunks() const {
  return {chunks_.dim(0), first_chunk_.numel() - 1, static_cast<const TensorChunk*>(chunks_.raw()),
          static_cast<const std::int64_t*>(first_chunk_.raw())};
}

}  // namespace dtn
