// The problems that grouped_attention_*.cu send to the tensor cores: bfloat16, with head rows that
// begin at multiples of 16 bytes. Key and value columns are 16 and 16, 16 and 32, 16 and 64, 32 and
// 32 or 64 and 64, or 8 fewer of either.
#pragma once

#include "kernels/attention/attention_device.cuh"
#include "kernels/grouped_attention/grouped_attention.h"

namespace dtn::attention {

// Both return false, and do nothing, for any other problem.
bool grouped_tiles_forward(CudaQueue&, const GroupedAttentionForward&);
bool grouped_tiles_backward(CudaQueue&, const GroupedAttentionBackward&, RowStatistics*);

}  // namespace dtn::attention
