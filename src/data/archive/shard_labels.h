// Labels of samples in tar shards: numbers or names of classes, any number of them for each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "data/archive/archive_index.h"

namespace dtn {

// A label as a shard has it.
struct ShardLabel {
  std::string text;        // the name of a class, or digits
  bool is_number = false;  // a number, not a text

  bool operator==(const ShardLabel&) const = default;
  bool operator<(const ShardLabel& other) const {
    return std::tie(text, is_number) < std::tie(other.text, other.is_number);
  }
};

// Returns the label, from 0 to 999999, that a text spells in digits; nothing for any other text.
std::optional<std::int32_t> label_number(const std::string& text);

// Returns the labels in the JSON of a sample: its member `label` or, without one, `labels`. It is a
// whole number from 0 to 999999, a text, or a list of these. Throws DataError that says what is
// wrong, without the name of the file.
std::vector<ShardLabel> parse_json_labels(std::string_view json);

// The different lists of labels of the samples of some shards.
class ShardLabels {
 public:
  ShardLabels() = default;
  ShardLabels(const ShardLabels&) = delete;
  ShardLabels& operator=(const ShardLabels&) = delete;

  // Returns the position of the list of a sample. `shard` and `key` name the sample in messages.
  std::int32_t add(const std::vector<ShardLabel>& list, const std::string& shard,
                   const std::string& key);
  // Adds the lists of other shards. Returns the position here of each.
  std::vector<std::int32_t> add(const ShardLabels& other);

  // Replaces the labels of the images, which are positions of lists, by classes: the numbers, if
  // all labels are numbers or texts of digits; else the places of the names in byte order. If an
  // image has none or several, the index gets the lists. Throws DataError if some labels are
  // numbers and others are names.
  void classify(ArchiveIndex& index) const;

 private:
  void check_kinds() const;
  bool are_numbers() const;

  std::map<std::vector<ShardLabel>, std::int32_t> position_of_;
  std::vector<const std::vector<ShardLabel>*> lists_;  // the keys of the map
  std::map<ShardLabel, std::string> samples_;  // for each label: the first sample that has it
};

}  // namespace dtn
