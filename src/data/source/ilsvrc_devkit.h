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

struct IlsvrcDevkit {
  std::vector<std::string> classes;       // WordNet ids, sorted
  std::vector<std::int32_t> val_classes;  // of validation image i + 1: its position in `classes`
};

// Reads the folder ILSVRC2012_devkit_t12 or the archive ILSVRC2012_devkit_t12.tar.gz in `root`.
// DataError names what is missing or damaged.
IlsvrcDevkit read_ilsvrc_devkit(const std::filesystem::path& root);

// From the bytes of data/meta.mat and data/ILSVRC2012_validation_ground_truth.txt. The ground truth
// has a line for each image, with the ILSVRC2012_ID of its class; the classes are the synsets of
// meta.mat that have no children.
IlsvrcDevkit parse_ilsvrc_devkit(std::span<const std::byte> meta, std::span<const std::byte> truth,
                                 const std::string& name);

}  // namespace dtn
