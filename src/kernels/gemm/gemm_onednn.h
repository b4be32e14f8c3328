// Tiles of a matrix product on oneDNN, float32 and bfloat16. Every call computes on the calling
// thread only, because oneDNN divides work differently for each thread count, which changes bits.
#pragma once

#include <cstddef>
#include <string>

#include "core/queue.h"
#include "kernels/gemm/gemm_tile.h"

namespace dtn::onednn {

// Returns the name and version of the library; empty without oneDNN.
std::string library();

// Returns true if this machine has instructions for products of this type that are worth using. For
// bfloat16 these are AMX, and AVX512_BF16 except on Intel's processors: there it has half the rate
// of float32.
bool supports(DType dtype);

// Returns true if its kernels repack the right-hand side into a special layout. Kernels for
// processors before AVX-512 do not; they read down the columns of the given matrix.
bool has_own_layout(DType dtype);

void multiply(CpuQueue&, const GemmTile&);

// Packed right-hand sides. plan_panel, called from one thread, prepares panel number `slot` of a
// product. Then allocate `bytes` and call bind_panel. pack_panel may run on any thread. The panel
// is valid until the thread that planned it plans the same slot with the same shape again.
struct Panel {
  void* handle;
  std::size_t bytes;
};
Panel plan_panel(const GemmTile&, int slot);
void bind_panel(const Panel&, void* memory);
void pack_panel(CpuQueue&, const GemmTile&, const Panel&);

}  // namespace dtn::onednn
