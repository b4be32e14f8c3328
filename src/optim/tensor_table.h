// Table of the tensors of a flat buffer in device memory: a captured step needs no data from the
// host.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "dtn/core/tensor.h"
#include "kernels/optimizer/tensor_chunks.h"

namespace dtn {

class TensorTable {
 public:
  // `tensors`: first element and end of each tensor.
  TensorTable(const std::vector<std::pair<std::int64_t, std::int64_t>>& tensors, Device device);

  TensorChunks chunks() const;

 private:
  Tensor chunks_;       // [chunks, 3] int64, one TensorChunk per row
  Tensor first_chunk_;  // [tensors + 1] int64
};

}  // namespace dtn
