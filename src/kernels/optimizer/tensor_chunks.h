// Table of the tensors of a flat buffer, cut into chunks, for sums over each tensor.
#pragma once

#include <cstdint>

namespace dtn {

// Part of one tensor. Sums run over the elements of a chunk, then over the chunks of a tensor in
// order.
struct TensorChunk {
  std::int64_t begin, end;  // elements; begin is a multiple of 4
  std::int64_t tensor;
};
// Elements of a chunk, except in the last chunk of a tensor.
inline constexpr std::int64_t kTensorChunk = 8192;

// Lies in device memory.
struct TensorChunks {
  std::int64_t chunk_count = 0, tensor_count = 0;
  const TensorChunk* chunks = nullptr;        // [chunk_count], tensor by tensor
  const std::int64_t* first_chunk = nullptr;  // [tensor_count + 1]
};

}  // namespace dtn
