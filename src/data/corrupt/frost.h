// Generates pictures of frost on glass. Private to dtn_data.
#pragma once

#include <vector>

#include "dtn/io/image.h"

namespace dtn::corrupt {

// Returns five pictures, the same on every call. As in the originals, the second equals the third.
std::vector<Image> make_ice();

}  // namespace dtn::corrupt
