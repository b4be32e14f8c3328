// The development kit of ILSVRC2012 (tasks 1 and 2), which alone knows the classes of the
// validation images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace dtn {

// The labels of the validation images, that of ILSVRC2012_val_00000001.JPEG first: positions in
// imagenet_class_names(). Read from data/ILSVRC2012_validation_ground_truth.txt in the folder
// ILSVRC2012_devkit_t12 or the archive ILSVRC2012_devkit_t12.tar.gz in `root`. DataError names what
// is missing or damaged.
std::vector<std::int32_t> read_ilsvrc_labels(const std::filesystem::path& root);

// The same from the bytes of that file, which has a line for each image with the ILSVRC2012_ID of
// its class. `name` stands for the file in messages.
std::vector<std::int32_t> parse_ilsvrc_labels(std::span<const std::byte> truth,
                                              const std::string& name);

}  // namespace dtn
