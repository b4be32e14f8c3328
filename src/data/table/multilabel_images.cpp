#include <string>
#include <utility>

#include "core/format.h"
#include "data/table/split_table.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "io/file.h"

namespace dtn {
namespace {

// Returns the field "labels" of the images of a table, see Dataset::ready_fields().
Tensor label_matrix(const SplitTable& listed) {
  const auto images = static_cast<std::int64_t>(listed.table.paths.size());
  const auto classes = static_cast<std::int64_t>(listed.classes.size());
  Tensor labels = Tensor::zeros({images, classes}, DType::kUInt8);
  for (std::int64_t i = 0; i < images; ++i) {
    const std::int32_t of = listed.table.text_of[static_cast<std::size_t>(i)];
    std::uint8_t* row = labels.data<std::uint8_t>() + i * classes;
    for (const std::int32_t text : listed.table.combinations[static_cast<std::size_t>(of)]) {
      row[listed.label_of[static_cast<std::size_t>(text)]] = 1;
    }
  }
  return labels;
}

// Images sorted by folder and file name.
class MultilabelImages final : public Dataset {
 public:
  // `kind` is empty or ends with a blank.
  MultilabelImages(SplitTable listed, const std::string& kind) : folder_(std::move(listed.folder)) {
    ready_fields_["labels"] = label_matrix(listed);
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
