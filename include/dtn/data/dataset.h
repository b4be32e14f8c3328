// A data set: labelled samples by index. Opened for one split, then immutable and thread-safe. All
// that a thread needs to load a sample is in a separate SampleWorkspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtn/core/fields.h"
#include "dtn/io/image.h"

namespace dtn {

// The part of a data set: for training or for validation.
enum class Split { kTrain, kVal };
const char* name_of(Split split);  // "train", "val"

// The classes of a model or of a data set.
struct ClassList {
  std::string owner;               // owner of the classes, for messages: "the checkpoint a"
  std::vector<std::string> names;  // in label order; empty: unknown; at most `count`
  std::int64_t count = 0;
};

// Buffers of one thread, reused from sample to sample.
struct SampleWorkspace {
  std::string name;
  std::vector<std::byte> bytes;
  Image image;
};

// One sample, in one of four forms: an encoded image file (named by workspace.name), an image, the
// float input of a model, used unchanged, or a sequence of tokens. It points into the workspace or
// the data set and is valid until the next load() with the same workspace.
struct Sample {
  std::span<const std::byte> encoded;
  const Image* image = nullptr;
  std::span<const float> ready;            // [channels, height, width]
  std::span<const std::uint8_t> tokens{};  // ids from 1 to Dataset::vocabulary() - 1
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t label(std::int64_t index) const { return labels_[static_cast<std::size_t>(index)]; }
  // At most the classes of the model. class_names() is empty or has num_classes() names.
  std::int64_t num_classes() const { return num_classes_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  // False if samples are sequences, or float inputs of a model, which are no longer pixels.
  bool has_pixels() const { return has_pixels_; }
  // False if the classes of the samples are unknown: then all labels are 0.
  bool has_labels() const { return has_labels_; }
  // Inputs of a task that the data set has ready, used unchanged: [size(), ...] each. In a data set
  // of single samples, which load() returns, they are inputs beside the sample. If a sample has any
  // number of classes, "labels" [size(), num_classes()] uint8 is 1 for those that it has and 0 for
  // the others, and has_labels() is false.
  const Fields& ready_fields() const { return ready_fields_; }
  // For sequences: number of ids, including 0, the pad. 0 if samples are images.
  std::int64_t vocabulary() const { return vocabulary_; }
  // One line for messages: kind, location and size.
  const std::string& description() const { return description_; }

  // Throws DataError if the sample cannot be read.
  virtual Sample load(std::int64_t index, SampleWorkspace& workspace) const = 0;
  // Number of tokens of a sequence; 0 for an image.
  virtual std::int64_t length(std::int64_t index) const {
    static_cast<void>(index);
    return 0;
  }
  // Name of a sample for messages: its file, or file and index.
  virtual std::string sample_name(std::int64_t index) const = 0;
  // Name of a sample within the data set, independent of its location: "<class>/<file>" for a file,
  // else the index.
  virtual std::string item_name(std::int64_t index) const { return std::to_string(index); }
  // Path of a sample's file below the folder of the data set; else item_name(). data.split decides
  // by it.
  virtual std::string file_name(std::int64_t index) const { return item_name(index); }

 protected:
  Dataset() = default;
  std::vector<std::int64_t> labels_;
  std::vector<std::string> class_names_;
  std::int64_t num_classes_ = 0;
  bool has_pixels_ = true;
  bool has_labels_ = true;
  Fields ready_fields_;
  std::int64_t vocabulary_ = 0;
  std::string description_;
};

}  // namespace dtn
