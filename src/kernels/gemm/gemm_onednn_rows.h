// What oneDNN's kernels of before AVX-512 want of the rows of a tile. They have no layout of their own,
// and so
//   - walk down the columns of what they are given, which takes up to two and a half times as long
//     where rows lie a multiple of 512 bytes apart: such factors are copied to other strides first;
//   - work on six rows at a time, of the halves of up to 144, and add up what fewer are left over in
//     another order: a tile is filled up to whole blocks, so that the bits of a row do not depend on
//     how many others there are.
#pragma once

#include "core/queue.h"
#include "kernels/gemm/gemm_tile.h"

namespace dtn::onednn {

// The rows of tiles that need no filling up are multiples of this.
std::int64_t row_block(DType dtype);

// onednn::multiply() of such tiles.
void multiply_rows(CpuQueue&, const GemmTile&);

}  // namespace dtn::onednn
