// Sizes and colours of the images of a data set, from a part of them.
#pragma once

#include <cstdint>

#include "dtn/data/dataset.h"

namespace dtn::app {

struct FolderSummary {
  std::int64_t looked_at = 0;  // images whose headers could be read
  int width = 0, height = 0;   // medians, upright
  int short_side = 0;          // median
  bool gray = false;           // no image has colours
  std::int64_t turned = 0;     // images with an EXIF orientation that is not as stored
};

// Reads the headers of some images, evenly from the whole data set. Throws DataError if none of
// them can be read.
FolderSummary summarize(const Dataset& dataset);

}  // namespace dtn::app
