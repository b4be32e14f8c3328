#include "data/table/listed_images.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/format.h"
#include "data/table/split_table.h"
#include "dtn/core/check.h"
#include "io/file.h"

namespace dtn {
namespace {

class ListedImages final : public Dataset {
 public:
  // `kind` is empty or ends with a blank.
  ListedImages(const SplitTable& listed, const std::string& kind) : folder_(listed.folder) {
    const LabelTable& table = listed.table;
    // Class folders are read in byte order, whatever their labels are.
    std::vector<std::string> by_bytes = table.texts;
    std::ranges::sort(by_bytes);
    const auto rank = [&](std::size_t i) {
      const std::string& text = table.texts[static_cast<std::size_t>(table.text_of[i])];
      return std::ranges::lower_bound(by_bytes, text) - by_bytes.begin();
    };
    std::vector<std::pair<std::ptrdiff_t, std::size_t>> order;
    order.reserve(table.paths.size());
    for (std::size_t i = 0; i < table.paths.size(); ++i) order.emplace_back(rank(i), i);
    std::ranges::sort(order);
    for (const auto& [unused, i] : order) {
      names_.add(table.paths[i]);
      labels_.push_back(listed.label_of[static_cast<std::size_t>(table.text_of[i])]);
    }
    description_ = cat(size(), " ", kind, size() == 1 ? "image of " : "images of ",
                       counted(listed.label_of.size(), "classes"), " in ", folder_,
                       ", labels from ", table.name, " (", table.layout, ")");
    class_names_ = listed.classes;
    num_classes_ = static_cast<std::int64_t>(class_names_.size());
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    join_path(folder_, name_of(index), workspace.name);
    read_file_into(workspace.name, workspace.bytes);
    return {.encoded = workspace.bytes, .image = nullptr, .ready = {}};
  }
  std::string sample_name(std::int64_t index) const override {
    std::string path;
    join_path(folder_, name_of(index), path);
    return path;
  }
  std::string item_name(std::int64_t index) const override {
    return cat(class_names_[static_cast<std::size_t>(label(index))], "/", name_of(index));
  }
  std::string file_name(std::int64_t index) const override { return std::string(name_of(index)); }

 private:
  std::string_view name_of(std::int64_t index) const {
    return names_[static_cast<std::size_t>(index)];
  }

  std::string folder_;
  NameList names_;  // of files below the folder
};

}  // namespace

std::unique_ptr<Dataset> open_listed_images(const DataConfig& data, const ModelConfig& model,
                                            Split split) {
  const SplitTable listed = read_split_table(data, model, split, LabelsPerImage::kOne);
  return std::make_unique<ListedImages>(listed, data.split ? "" : cat(name_of(split), " "));
}

}  // namespace dtn
