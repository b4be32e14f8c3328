// Prepares the rows of a tile for oneDNN's kernels for processors before AVX-512. These kernels
// have no special layout, and therefore
//   - read down the columns of the given matrices, which takes up to two and a half times as long
//     if rows are a multiple of 512 bytes apart. These factors are first copied to other strides.
//   - process six rows at a time, in each half of up to 144 rows, and add up the remaining rows in
//     another order. A tile is padded to whole blocks, so that the bits of a row do not depend on
//     the number of other rows.
#pragma once

#include "core/queue.h"
#include "kernels/gemm/gemm_tile.h"

namespace dtn::onednn {

// Tiles whose row count is a multiple of this need no padding.
std::int64_t row_block(DType dtype);

// onednn::multiply() with this preparation.
void multiply_rows(CpuQueue&, const GemmTile&);

}  // namespace dtn::onednn
