// Pictures of a task side by side, for people to look at.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/core/tensor.h"
#include "dtn/io/image.h"

namespace dtn {

// A row for each of the first `rows` samples, with a picture of each column and no border. A column
// is [N, C, H, W] float32 on the host, with pixels in [0, 1], which become round(255 clamp(x)).
// Pictures of 1 or 3 channels keep their colours; with other numbers of channels, each channel is
// the amount of a colour. Throws Error if the columns have different N, H or W.
Image picture_grid(const std::vector<Tensor>& columns, std::int64_t rows);

}  // namespace dtn
