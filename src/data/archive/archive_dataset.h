// A data set whose images lie in tar archives and are read in place.
#pragma once

#include <string>
#include <vector>

#include "data/archive/archive_index.h"
#include "dtn/data/dataset.h"

namespace dtn {

class ArchiveDataset final : public Dataset {
 public:
  // The samples are the images of `index`, in its order and with its labels. `where` names the
  // archives. The owner of the classes is not used.
  ArchiveDataset(ArchiveSet archives, ArchiveIndex index, ClassList classes, Split split,
                 const std::string& where);
  // The same with any number of labels for each image: `labels` [images, classes] uint8, see
  // Dataset::ready_fields().
  ArchiveDataset(ArchiveSet archives, ArchiveIndex index, ClassList classes, Tensor labels,
                 Split split, const std::string& where);

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override;
  std::string sample_name(std::int64_t index) const override;
  std::string item_name(std::int64_t index) const override;

 private:
  ArchiveDataset(ArchiveSet archives, ArchiveIndex index, ClassList classes);
  const ArchiveIndex::Image& image(std::int64_t index) const {
    return index_.images[static_cast<std::size_t>(index)];
  }
  void name_into(std::int64_t index, std::string& name) const;

  ArchiveSet archives_;
  ArchiveIndex index_;
};

}  // namespace dtn
