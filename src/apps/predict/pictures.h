// Images without labels, from files and folders that the user names.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"

namespace dtn::app {

// An image file that the user names.
struct InputPicture {
  std::string file;  // its path
  std::string name;  // within the folder that the user names, or the file name without folders
};

// Number of processed and of damaged images.
struct PictureCount {
  std::int64_t done = 0, damaged = 0;
};

// Lists the images in `paths`: files named directly, whatever their extension, and the images in
// folders at any depth. Throws DataError for a path that does not exist and for a folder without
// images.
std::vector<InputPicture> list_pictures(const std::vector<std::string>& paths);

// Opens images, each of which is loaded on demand. With `style`, Dataset::ready_fields() has it for
// every image.
std::shared_ptr<const Dataset> open_pictures(const std::vector<InputPicture>& pictures,
                                             std::optional<std::int64_t> style = {});
// Opens the images of list_pictures().
std::shared_ptr<const Dataset> open_pictures(const std::vector<std::string>& paths,
                                             std::optional<std::int64_t> style = {});

// Forwards samples, and records the error of each sample that could not be made.
class FaultKeepingSource final : public SampleSource {
 public:
  explicit FaultKeepingSource(std::shared_ptr<const SampleSource> source)
      : source_(std::move(source)) {}

  // Removes and returns the recorded error with the lowest index below `end`, as (index, message).
  // Thread-safe.
  std::optional<std::pair<std::int64_t, std::string>> take_fault(std::int64_t end) const;

  std::int64_t size() const override { return source_->size(); }
  const std::string& description() const override { return source_->description(); }
  std::string noun() const override { return source_->noun(); }
  std::string sample_name(std::int64_t index) const override { return source_->sample_name(index); }
  std::vector<FieldSpec> host_fields() const override { return source_->host_fields(); }
  std::vector<FieldSpec> device_fields() const override { return source_->device_fields(); }
  std::unique_ptr<Workspace> make_workspace() const override { return source_->make_workspace(); }
  std::unique_ptr<BatchFinisher> make_finisher(Device device) const override {
    return source_->make_finisher(device);
  }
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            Workspace& workspace) const override;

 private:
  std::shared_ptr<const SampleSource> source_;
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, std::string> faults_;
};

}  // namespace dtn::app
