#include "train/record/split_lists.h"

#include <algorithm>

#include "data/table/csv.h"
#include "dtn/core/check.h"
#include "dtn/data/dataset.h"
#include "io/atomic_file.h"
#include "io/file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

// Writes the labels of images as a table has them.
class LabelText {
 public:
  explicit LabelText(const Dataset& images)
      : images_(images), labels_(images.ready_fields().find("labels")) {}

  // The header of the column. Empty if the labels cannot be written: the images or the classes have
  // none, or the names of several would not be told apart.
  std::string header() const {
    const std::vector<std::string>& names = images_.class_names();
    if (names.empty() || !(labels_ || images_.has_labels())) return "";
    if (!labels_) return "label";
    const auto has_separator = [](const std::string& name) { return name.find(';') != name.npos; };
    return std::ranges::any_of(names, has_separator) ? "" : "labels";
  }

  std::string of(std::int64_t index) const {
    const std::vector<std::string>& names = images_.class_names();
    if (!labels_) return names[static_cast<std::size_t>(images_.label(index))];
    const std::uint8_t* row = labels_->data<std::uint8_t>() + index * images_.num_classes();
    std::string text;
    for (std::size_t k = 0; k < names.size(); ++k) {
      if (row[k] != 0) text += (text.empty() ? "" : ";") + names[k];
    }
    return text;
  }

 private:
  const Dataset& images_;
  const Tensor* labels_;  // any number for each image; null: one
};

std::string list_of(const Dataset& images, bool with_labels) {
  const LabelText labels(images);
  const std::string header = with_labels ? labels.header() : "";
  std::string text = header.empty() ? "path\n" : cat("path,", header, "\n");
  std::string last;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const std::string name = images.file_name(i);
    if (i > 0 && name == last) continue;  // an image is a sample once for each label set
    text += csv_field(name);
    if (!header.empty()) text += ',' + csv_field(labels.of(i));
    text += '\n';
    last = name;
  }
  return text;
}

}  // namespace

std::vector<std::string> write_split_lists(const fs::path& run, const SampleSource& training,
                                           const SampleSource* validation, bool with_labels) {
  std::vector<std::string> changed;
  const auto write = [&](const std::string& name, const SampleSource* source) {
    const Dataset* images = source ? source->source_dataset() : nullptr;
    if (!images) return;
    const fs::path file = run / "splits" / name;
    const std::string text = list_of(*images, with_labels);
    if (fs::exists(file)) {
      if (read_text(file.string()) == text) return;
      changed.push_back("splits/" + name);
    }
    fs::create_directories(file.parent_path());
    write_file_atomic(file, text);
  };
  write("train.csv", &training);
  write("val.csv", validation);
  return changed;
}

}  // namespace dtn
