#include "data/corrupt/frost_textures.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "data/corrupt/corruptions.h"
#include "data/source/image_names.h"
#include "dtn/core/check.h"
#include "io/file.h"
#include "io/fingerprint.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> texture_files(const fs::path& folder) {
  constexpr std::array kOriginals = {"frost1.png", "frost2.png", "frost3.png", "frost4.jpg",
                                     "frost5.jpg"};
  std::vector<fs::path> originals, all;
  std::error_code error;
  for (const char* name : kOriginals) {
    if (fs::exists(folder / name, error)) originals.push_back(folder / name);
  }
  if (originals.size() == kOriginals.size()) return originals;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!is_hidden_path(name) && is_image_name(name)) all.push_back(it->path());
  }
  if (error) throw DataError(cat("cannot list ", folder.string(), ": ", error.message()));
  if (all.empty()) {
    throw DataError(cat(folder.string(), ": has no pictures of frost (frost1.png, ...)"));
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace

FrostTextures::FrostTextures(std::vector<Image> images, bool stand_in)
    : images_(std::move(images)), stand_in_(stand_in) {
  Fingerprint print;
  for (const Image& image : images_) {
    print.add(static_cast<std::int64_t>(image.width));
    print.add(std::as_bytes(std::span(image.pixels)));
  }
  identity_ = stand_in ? kStandIn : print.text();
}

std::shared_ptr<const FrostTextures> FrostTextures::stand_in() {
  static const std::shared_ptr<const FrostTextures> textures(
      new FrostTextures(corrupt::make_ice(), true));
  return textures;
}

std::shared_ptr<const FrostTextures> FrostTextures::from_folder(const std::string& folder) {
  std::vector<Image> images;
  for (const fs::path& file : texture_files(folder)) {
    images.push_back(decode_image(read_file(file.string()), file.string()));
    const Image& image = images.back();
    if (std::min(image.width, image.height) <= kCorruptedSide) {
      throw DataError(cat(file.string(), ": a texture of ", image.width, " x ", image.height,
                          " is too small; both sides need at least 225 pixels"));
    }
  }
  return std::shared_ptr<const FrostTextures>(new FrostTextures(std::move(images), false));
}

}  // namespace dtn
