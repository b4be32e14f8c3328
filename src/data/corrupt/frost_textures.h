// The pictures of frost that are laid over images.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtn/io/image.h"

namespace dtn {

class FrostTextures {
 public:
  // Made up by code, alike on every call: five of the sizes of the originals, with their mean and
  // deviation by channel and their mean step from a pixel to its right neighbour. What is measured
  // with them is not comparable with published figures.
  static std::shared_ptr<const FrostTextures> stand_in();

  // The originals, by the names frost1.png, frost2.png, frost3.png, frost4.jpg and frost5.jpg (there
  // is a sixth that is never drawn), where all five are in `folder`; else whatever images it holds,
  // in order of their names. DataError when there are none, when one cannot be read, or has fewer
  // than 225 pixels on a side.
  static std::shared_ptr<const FrostTextures> from_folder(const std::string& folder);

  const std::vector<Image>& images() const { return images_; }  // of 3 channels
  bool is_stand_in() const { return stand_in_; }
  static constexpr const char* kStandIn = "stand-in";
  // kStandIn, or what tells the pictures of a folder apart.
  const std::string& identity() const { return identity_; }

 private:
  FrostTextures(std::vector<Image> images, bool stand_in);

  std::vector<Image> images_;
  bool stand_in_;
  std::string identity_;
};

}  // namespace dtn
