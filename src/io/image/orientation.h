// EXIF orientation of images. Private to dtn_io.
#pragma once

#include "dtn/io/image.h"

namespace dtn::codec {

// The turn between an image as stored and upright. `value` is that of the EXIF tag Orientation
// (EXIF 2.32, section 4.6.4), from 1 to 8:
//     upright(x, y) = stored(x', y')
// where x', y' are x, y, swapped if `swapped_`, and then counted from the other end of the stored
// image along each mirrored side.
class Orientation {
 public:
  explicit Orientation(int value)
      : swapped_(value >= 5),
        mirrored_x_(value == 2 || value == 3 || value == 7 || value == 8),
        mirrored_y_(value == 3 || value == 4 || value == 6 || value == 7) {}

  bool is_stored() const { return !swapped_ && !mirrored_x_ && !mirrored_y_; }

  ImageInfo upright(const ImageInfo& stored) const;

  // Returns the part of a stored width x height image that becomes `region` of the upright one.
  ImageRegion stored_region(const ImageRegion& region, int width, int height) const;

  // Turns a stored image, or a part of one.
  void turn(const Image& stored, Image& upright) const;

 private:
  bool swapped_, mirrored_x_, mirrored_y_;
};

}  // namespace dtn::codec
