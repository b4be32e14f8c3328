#include "data/classes/label_columns.h"

#include <string>
#include <utility>
#include <vector>

#include "core/format.h"
#include "data/classes/class_list.h"
#include "data/classes/class_order.h"
#include "data/classes/subset.h"
#include "data/table/split_table.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

// A data set whose "labels" are those of other classes.
class OtherColumns final : public Subset {
 public:
  // `labels`: for each class of `all`, its new position.
  OtherColumns(std::shared_ptr<const Dataset> all, const std::vector<std::int64_t>& labels,
               ClassList classes)
      : Subset(std::move(all)) {
    for (std::int64_t i = 0; i < whole().size(); ++i) add(i, 0);
    class_names_ = std::move(classes.names);
    num_classes_ = classes.count;
    has_labels_ = false;
    ready_fields_ = whole().ready_fields();
    ready_fields_["labels"] = moved(whole().ready_fields().at("labels"), labels);
    description_ = whole().description();
  }

 private:
  Tensor moved(const Tensor& from, const std::vector<std::int64_t>& labels) const {
    Tensor to = Tensor::zeros({from.dim(0), num_classes_}, DType::kUInt8);
    const std::int64_t classes = from.dim(1);
    for (std::int64_t i = 0; i < from.dim(0); ++i) {
      const std::uint8_t* row = from.data<std::uint8_t>() + i * classes;
      std::uint8_t* new_row = to.data<std::uint8_t>() + i * num_classes_;
      for (std::int64_t k = 0; k < classes; ++k)
        new_row[labels[static_cast<std::size_t>(k)]] = row[k];
    }
    return to;
  }
};

// Logs the classes of a model that a data set does not have.
void note_missing(const Dataset& dataset, const ClassMatch& match, const ClassList& classes) {
  std::vector<bool> there(static_cast<std::size_t>(classes.count));
  for (const std::int64_t label : match.labels) there[static_cast<std::size_t>(label)] = true;
  std::vector<std::string> missing;
  for (std::size_t k = 0; k < there.size(); ++k) {
    if (there[k]) continue;
    missing.push_back(k < match.names.size() ? match.names[k] : std::to_string(k));
  }
  if (missing.empty()) return;
  log_info(cat("classes: ", dataset.description(), " has ", match.labels.size(), " of the ",
               classes.count, " of ", classes.owner,
               "; no image counts as one of the others: ", listed_names(missing)));
}

}  // namespace

std::shared_ptr<const Dataset> open_multilabel_for(const DataConfig& data, const ModelConfig& model,
                                                   Split split, std::uint64_t seed,
                                                   const DatasetRegistry& datasets,
                                                   const ClassList& classes) {
  ModelConfig any = model;
  any.num_classes = 0;
  std::shared_ptr<const Dataset> dataset = open_multilabel(data, any, split, seed, datasets);
  const ClassMatch match =
      match_classes(class_list_of(*dataset), classes,
                    "evaluate a data set of the classes that the model was trained on");
  if (!match.note.empty()) log_info(match.note);
  const bool same = match.is_identity() && dataset->num_classes() == classes.count;
  if (same && dataset->class_names() == match.names) return dataset;
  return with_label_columns(std::move(dataset), match, classes);
}

std::unique_ptr<Dataset> with_label_columns(std::shared_ptr<const Dataset> dataset,
                                            const ClassMatch& match, const ClassList& classes) {
  note_missing(*dataset, match, classes);
  return std::make_unique<OtherColumns>(std::move(dataset), match.labels,
                                        ClassList{"", match.names, classes.count});
}

std::int64_t count_multilabel_classes(const DataConfig& data, const ModelConfig& model,
                                      std::uint64_t seed, const DatasetRegistry& datasets) {
  if (data.class_names) return std::ssize(listed_class_names(data));
  if (data.dataset == "imagefolder" && data.labels) {
    return static_cast<std::int64_t>(listed_classes(data, LabelsPerImage::kAny).size());
  }
  ModelConfig any = model;
  any.num_classes = 0;
  return open_multilabel(data, any, Split::kTrain, seed, datasets)->num_classes();
}

}  // namespace dtn
