#include "data/archive/archive_dataset.h"

#include <utility>

#include "core/format.h"
#include "data/source/image_names.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/file.h"

namespace dtn {

ArchiveDataset::ArchiveDataset(ArchiveSet archives, ArchiveIndex index,
                               std::vector<std::string> class_names, std::int64_t num_classes,
                               Split split, const std::string& where)
    : archives_(std::move(archives)), index_(std::move(index)) {
  labels_.reserve(index_.images.size());
  for (const ArchiveIndex::Image& image : index_.images) labels_.push_back(image.label);
  class_names_ = std::move(class_names);
  num_classes_ = num_classes;
  description_ = images_of_classes(*this, name_of(split), where);
  if (!index_.remark.empty()) log_warn_once(index_.remark);
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
