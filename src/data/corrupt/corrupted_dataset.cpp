#include "data/corrupt/corrupted_dataset.h"

#include <mutex>
#include <utility>
#include <vector>

#include "dtn/core/check.h"

namespace dtn {
namespace {

// Workspaces that threads borrow. They are pooled because a data set does not know its threads.
class WorkspacePool {
 public:
  std::unique_ptr<CorruptWorkspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<CorruptWorkspace>();
    std::unique_ptr<CorruptWorkspace> workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<CorruptWorkspace> workspace) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<CorruptWorkspace>> free_;
};

class CorruptedDataset final : public Dataset {
 public:
  CorruptedDataset(std::shared_ptr<const Dataset> clean, CorruptedOptions options)
      : clean_(std::move(clean)), options_(std::move(options)) {
    if (!clean_->has_pixels())
      throw ConfigError("a data set of tensors or sequences has no pixels to corrupt");
    for (std::int64_t i = 0; i < clean_->size(); ++i) labels_.push_back(clean_->label(i));
    class_names_ = clean_->class_names();
    num_classes_ = clean_->num_classes();
    description_ = cat(options_.cell.name(), " of ", clean_->description());
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    std::unique_ptr<CorruptWorkspace> ws = pool_.take();
    const Image& image = load_for_corruption(*clean_, index, options_.source, *ws);
    const std::string item = corruption_item(*clean_, index);
    apply_corruption(image, options_.cell, {options_.seed, item}, options_.frost.get(), ws->scratch,
                     ws->corrupted);
    workspace.name = sample_name(index);
    Sample sample;
    if (options_.format == CorruptFormat::kJpeg) {
      encode_corrupted(ws->corrupted, options_.format, *ws);
      std::swap(workspace.bytes, ws->encoded);
      sample.encoded = workspace.bytes;
    } else {
      std::swap(workspace.image, ws->corrupted);
      sample.image = &workspace.image;
    }
    pool_.give_back(std::move(ws));
    return sample;
  }

  std::string sample_name(std::int64_t index) const override {
    return cat(clean_->sample_name(index), " (", options_.cell.name(), ")");
  }
  std::string item_name(std::int64_t index) const override { return clean_->item_name(index); }

 private:
  std::shared_ptr<const Dataset> clean_;
  CorruptedOptions options_;
  mutable WorkspacePool pool_;
};

}  // namespace

std::unique_ptr<Dataset> corrupted_dataset(std::shared_ptr<const Dataset> clean,
                                           CorruptedOptions options) {
  return std::make_unique<CorruptedDataset>(std::move(clean), std::move(options));
}

}  // namespace dtn
