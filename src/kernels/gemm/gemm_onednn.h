// Tiles of a matrix product on oneDNN, float32 and bfloat16. Every call computes on the calling
// thread alone: oneDNN cuts work differently for different thread counts, which changes bits.
#pragma once

#include <cstddef>
#include <string>

#include "core/queue.h"
#include "kernels/gemm/gemm_tile.h"

namespace dtn::onednn {

// Its name and version; empty without it.
std::string library();

// Whether this machine multiplies this type natively (bfloat16 needs AVX512_BF16).
bool supports(DType dtype);

// Whether its kernels bring the right-hand side into a layout of their own. Those that do not, before
// AVX-512, walk down the columns of what they are given.
bool has_own_layout(DType dtype);

void multiply(CpuQueue&, const GemmTile&);

// Packed right-hand sides. plan_panel, from one thread, gives panel number `slot` of a product its
// place: `bytes` to allocate, then bind. pack_panel may run on any thread. The panel is valid until
// the thread that planned it plans the same slot with the same shape again.
struct Panel {
  void* handle;
  std::size_t bytes;
};
Panel plan_panel(const GemmTile&, int slot);
void bind_panel(const Panel&, void* memory);
void pack_panel(CpuQueue&, const GemmTile&, const Panel&);

}  // namespace dtn::onednn
