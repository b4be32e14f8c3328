// From a sample of a data set to corrupted images and their files. Private to dtn_data, and to what
// evaluates or writes them.
#pragma once

#include <string>
#include <vector>

#include "data/corrupt/corruptions.h"
#include "data/sample/resample.h"
#include "dtn/data/dataset.h"

namespace dtn {

enum class CorruptFormat {
  kJpeg,  // as ImageNet-C: quality 85, chroma halved both ways, optimised Huffman codes
  kPng,   // without loss
};
const char* name_of(CorruptFormat format);  // "jpeg", "png"
CorruptFormat corrupt_format(const std::string& name);

// What is corrupted.
enum class CorruptSource {
  kCrop,    // as ImageNet-C: the short side becomes 256, bilinear, then the middle 224 x 224
  kAsItIs,  // small images, of any size
};

// Buffers of one thread, reused from image to image.
struct CorruptWorkspace {
  SampleWorkspace sample;
  ResampleWorkspace resample;
  Image decoded, crop, corrupted;
  CorruptScratch scratch;
  std::vector<std::byte> encoded;
};

// Loads a sample as RGB. The result lies in the workspace. DataError when it cannot be read.
const Image& load_for_corruption(const Dataset& dataset, std::int64_t index, CorruptSource source,
                                 CorruptWorkspace& workspace);

// What a sample is called: "<class>/<file>", which names its draws and its files. Of data sets
// without files "<class>/<index>". DataError for a name that leads out of its folder.
std::string corruption_item(const Dataset& dataset, std::int64_t index);

// The name of an item's file: ".JPEG" stands in place of a suffix other than .jpg or .jpeg, or
// ".png" of any.
std::string corrupted_file_name(const std::string& item, CorruptFormat format);

// The bytes of the file, into workspace.encoded.
void encode_corrupted(const Image& image, CorruptFormat format, CorruptWorkspace& workspace);

}  // namespace dtn
