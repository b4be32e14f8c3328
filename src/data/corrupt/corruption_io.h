// Converts samples of a data set to corrupted images and their files. Private to dtn_data and to
// the code that evaluates or writes them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/corrupt/corruptions.h"
#include "dtn/data/dataset.h"

namespace dtn {

enum class CorruptFormat {
  kJpeg,  // as in ImageNet-C: quality 85, chroma halved both ways, optimised Huffman codes
  kPng,   // lossless
};
const char* name_of(CorruptFormat format);  // "jpeg", "png"
CorruptFormat corrupt_format(const std::string& name);

// Input of a corruption.
enum class CorruptSource {
  kCrop,    // as in ImageNet-C: short side 256, bilinear, then the middle 224 x 224
  kAsItIs,  // the whole image: small images, of any size
};

// Buffers of one thread, reused from image to image.
struct CorruptWorkspace {
  SampleWorkspace sample;
  Image decoded, crop, corrupted;
  CorruptScratch scratch;
  std::vector<std::byte> encoded;
};

// Loads a sample as RGB, into the workspace. Throws DataError if the sample cannot be read.
const Image& load_for_corruption(const Dataset& dataset, std::int64_t index, CorruptSource source,
                                 CorruptWorkspace& workspace);

// Returns the name of a sample, "<class>/<file>", which determines its random draws and its files.
// It is "<class>/<index>" in a data set without files. Throws DataError if it leads out of its
// folder.
std::string corruption_item(const Dataset& dataset, std::int64_t index);

// Returns the file name of an item. For JPEG, the suffix becomes ".JPEG" unless it is .jpg or
// .jpeg. For PNG, it becomes ".png".
std::string corrupted_file_name(const std::string& item, CorruptFormat format);

// Encodes the image as the bytes of its file, into workspace.encoded.
void encode_corrupted(const Image& image, CorruptFormat format, CorruptWorkspace& workspace);

// A data set whose images are corrupted when they are loaded.
struct CorruptedOptions {
  CorruptionCell cell;
  std::uint64_t seed = 0;
  CorruptSource source = CorruptSource::kCrop;
  // kJpeg: a sample is exactly the JPEG that `dtn-data corrupt` would write. kPng: the pixels.
  CorruptFormat format = CorruptFormat::kJpeg;
  std::shared_ptr<const FrostTextures> frost;  // only for frost
};

// Returns the samples of `clean` in their order, with its labels and classes. `clean` must not be
// such a data set itself: both would use the buffers of the thread.
std::unique_ptr<Dataset> corrupted_dataset(std::shared_ptr<const Dataset> clean,
                                           CorruptedOptions options);

}  // namespace dtn
