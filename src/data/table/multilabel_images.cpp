#include <string>
#include <utility>
#include <vector>

#include "core/format.h"
#include "data/source/label_matrix.h"
#include "data/table/split_table.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "io/file.h"

namespace dtn {
namespace {

// Returns the field "labels" of the images of a table, see Dataset::ready_fields().
Tensor labels_of(const SplitTable& listed) {
  std::vector<std::vector<std::int32_t>> lists = listed.table.combinations;
  for (std::vector<std::int32_t>& list : lists) {
    for (std::int32_t& text : list) {
      text = static_cast<std::int32_t>(listed.label_of[static_cast<std::size_t>(text)]);
    }
  }
  return label_matrix(listed.table.text_of, lists, std::ssize(listed.classes));
}

// Images sorted by folder and file name.
class MultilabelImages final : public Dataset {
 public:
  // `kind` is empty or ends with a blank.
  MultilabelImages(SplitTable listed, const std::string& kind) : folder_(std::move(listed.folder)) {
    ready_fields_["labels"] = labels_of(listed);
    labels_.resize(listed.table.paths.size());
    has_labels_ = false;
    description_ = cat(size(), " ", kind, size() == 1 ? "image" : "images", " with labels of ",
                       counted(listed.classes.size(), "classes"), " in ", folder_, ", from ",
                       listed.table.name, " (", listed.table.layout, ")");
    class_names_ = std::move(listed.classes);
    num_classes_ = static_cast<std::int64_t>(class_names_.size());
    names_ = std::move(listed.table.paths);
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    join_path(folder_, names_[static_cast<std::size_t>(index)], workspace.name);
    read_file_into(workspace.name, workspace.bytes);
    return {.encoded = workspace.bytes, .image = nullptr, .ready = {}};
  }
  std::string sample_name(std::int64_t index) const override {
    std::string path;
    join_path(folder_, names_[static_cast<std::size_t>(index)], path);
    return path;
  }
  std::string item_name(std::int64_t index) const override {
    return std::string(names_[static_cast<std::size_t>(index)]);
  }

 private:
  std::string folder_;
  NameList names_;  // of files below the folder
};

}  // namespace

std::unique_ptr<Dataset> open_multilabel_images(const DataConfig& data, const ModelConfig& model,
                                                Split split) {
  if (!data.labels) {
    throw ConfigError(
        "images with any number of classes need a table of their labels; set data.labels");
  }
  SplitTable listed = read_split_table(data, model, split, LabelsPerImage::kAny);
  if (listed.classes.empty()) {
    throw DataError(cat(listed.table.name, ": no image has a label"));
  }
  return std::make_unique<MultilabelImages>(std::move(listed),
                                            data.split ? "" : cat(name_of(split), " "));
}

}  // namespace dtn
