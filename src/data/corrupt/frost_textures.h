// Pictures of frost that are blended with images.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtn/io/image.h"

namespace dtn {

class FrostTextures {
 public:
  // Returns five generated pictures, the same on every call. They have the sizes of the originals,
  // their mean and deviation by channel, and their mean step from a pixel to its right neighbour.
  // Results measured with them are not comparable with published figures.
  static std::shared_ptr<const FrostTextures> stand_in();

  // Reads pictures from a folder. If `folder` holds all five originals frost1.png, frost2.png,
  // frost3.png, frost4.jpg and frost5.jpg (there is a sixth that is never drawn), these are used.
  // Otherwise all its images are used, in the order of their names. Throws DataError if there are
  // none, or if one cannot be read or has fewer than 225 pixels on a side.
  static std::shared_ptr<const FrostTextures> from_folder(const std::string& folder);

  const std::vector<Image>& images() const { return images_; }  // 3 channels each
  bool is_stand_in() const { return stand_in_; }
  static constexpr const char* kStandIn = "stand-in";
  // Returns kStandIn, or a fingerprint of the pictures of a folder.
  const std::string& identity() const { return identity_; }

 private:
  FrostTextures(std::vector<Image> images, bool stand_in);

  std::vector<Image> images_;
  bool stand_in_;
  std::string identity_;
};

namespace corrupt {
// Generates five pictures of frost on glass, the same on every call. As in the originals, the
// second equals the third.
std::vector<Image> make_ice();
}  // namespace corrupt

}  // namespace dtn
