#include "data/archive/archive_dataset.h"

#include <utility>

#include "core/format.h"
#include "data/source/image_names.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/file.h"

namespace dtn {

ArchiveDataset::ArchiveDataset(ArchiveSet archives, ArchiveIndex index, ClassList classes)
    : archives_(std::move(archives)), index_(std::move(index)) {
  labels_.resize(index_.images.size());
  class_names_ = std::move(classes.names);
  num_classes_ = classes.count;
  if (!index_.remark.empty()) log_warn_once(index_.remark);
}

ArchiveDataset::ArchiveDataset(ArchiveSet archives, ArchiveIndex index, ClassList classes,
                               Split split, const std::string& where)
    : ArchiveDataset(std::move(archives), std::move(index), std::move(classes)) {
  for (std::size_t i = 0; i < labels_.size(); ++i) labels_[i] = index_.images[i].label;
  description_ = images_of_classes(*this, name_of(split), where);
}

ArchiveDataset::ArchiveDataset(ArchiveSet archives, ArchiveIndex index, ClassList classes,
                               Tensor labels, Split split, const std::string& where)
    : ArchiveDataset(std::move(archives), std::move(index), std::move(classes)) {
  ready_fields_["labels"] = std::move(labels);
  has_labels_ = false;
  description_ = images_of_classes(*this, name_of(split), where);
}

Sample ArchiveDataset::load(std::int64_t index, SampleWorkspace& workspace) const {
  const ArchiveIndex::Image& where = image(index);
  name_into(index, workspace.name);
  if (where.size > static_cast<std::uint64_t>(kDefaultMaxFileBytes)) {
    throw DataError(cat(workspace.name, ": has ", bytes_text(static_cast<double>(where.size)),
                        ", more than the ", bytes_text(static_cast<double>(kDefaultMaxFileBytes)),
                        " allowed for an image"));
  }
  workspace.bytes.resize(static_cast<std::size_t>(where.size));
  archives_.open(where.archive)->read(static_cast<std::int64_t>(where.offset), workspace.bytes);
  return {.encoded = workspace.bytes, .image = nullptr, .ready = {}};
}

void ArchiveDataset::name_into(std::int64_t index, std::string& name) const {
  const ArchiveIndex::Image& where = image(index);
  name.assign(archives_.path(where.archive)).append(": ").append(index_.name(where));
}

std::string ArchiveDataset::sample_name(std::int64_t index) const {
  std::string name;
  name_into(index, name);
  return name;
}

std::string ArchiveDataset::item_name(std::int64_t index) const {
  return std::string(index_.name(image(index)));
}

}  // namespace dtn
