// Frost on glass, drawn by code. Private to dtn_data.
#pragma once

#include <vector>

#include "dtn/io/image.h"

namespace dtn::corrupt {

// Five pictures, alike on every call; the second and the third are the same, as in the originals.
std::vector<Image> make_ice();

}  // namespace dtn::corrupt
