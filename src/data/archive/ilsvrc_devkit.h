// The development kit of ILSVRC2012 (tasks 1 and 2), the only source of the classes of the
// validation images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace dtn {

// Returns the labels of the validation images, ILSVRC2012_val_00000001.JPEG first. A label is a
// position in imagenet_class_names(). The source is data/ILSVRC2012_validation_ground_truth.txt in
// the folder ILSVRC2012_devkit_t12 or the archive ILSVRC2012_devkit_t12.tar.gz in `root`. DataError
// names the missing or damaged file.
std::vector<std::int32_t> read_ilsvrc_labels(const std::filesystem::path& root);

// The same from the bytes of that file. It has one line per image, with the ILSVRC2012_ID of its
// class. `name` is the file's name in messages.
std::vector<std::int32_t> parse_ilsvrc_labels(std::span<const std::byte> truth,
                                              const std::string& name);

}  // namespace dtn
