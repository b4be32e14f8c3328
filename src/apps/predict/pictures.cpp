#include "apps/predict/pictures.h"

#include <filesystem>

#include "core/format.h"
#include "data/source/image_folder.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/file.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

class Pictures final : public Dataset {
 public:
  Pictures(const std::vector<InputPicture>& pictures, std::optional<std::int64_t> style) {
    for (const InputPicture& picture : pictures) files_.push_back(picture.file);
    labels_.assign(files_.size(), 0);
    description_ = counted(files_.size(), "images");
    if (!style) return;
    ready_fields_["style"] =
        Tensor::from(std::vector<std::int64_t>(files_.size(), *style), {size()});
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    workspace.name = sample_name(index);
    read_file_into(workspace.name, workspace.bytes);
    return {.encoded = workspace.bytes, .image = nullptr, .ready = {}};
  }
  std::string sample_name(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)];
  }

 private:
  std::vector<std::string> files_;
};

void add_pictures(const std::string& path, std::vector<InputPicture>& out) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (!fs::exists(path, error)) throw DataError(cat(path, ": no such file or folder"));
    out.push_back({path, fs::path(path).filename().string()});
    return;
  }
  LeftOut left_out;
  const std::vector<std::string> found = list_images(path, left_out);
  if (left_out.count() > 0) log_warn(left_out.warning(path));
  if (found.empty()) throw DataError(cat(path, ": contains no image file of a supported format"));
  for (const std::string& name : found) out.push_back({(fs::path(path) / name).string(), name});
}

}  // namespace

std::vector<InputPicture> list_pictures(const std::vector<std::string>& paths) {
  std::vector<InputPicture> pictures;
  for (const std::string& path : paths) add_pictures(path, pictures);
  return pictures;
}

std::shared_ptr<const Dataset> open_pictures(const std::vector<InputPicture>& pictures,
                                             std::optional<std::int64_t> style) {
  return std::make_shared<Pictures>(pictures, style);
}

std::shared_ptr<const Dataset> open_pictures(const std::vector<std::string>& paths,
                                             std::optional<std::int64_t> style) {
  return open_pictures(list_pictures(paths), style);
}

void FaultKeepingSource::make(std::int64_t index, const SampleKey& key, FieldRow& row,
                              Workspace& workspace) const {
  try {
    source_->make(index, key, row, workspace);
  } catch (const DataError& e) {
    const std::lock_guard lock(mutex_);
    faults_[index] = e.what();
    throw;
  }
}

std::optional<std::pair<std::int64_t, std::string>> FaultKeepingSource::take_fault(
    std::int64_t end) const {
  const std::lock_guard lock(mutex_);
  const auto first = faults_.begin();
  if (first == faults_.end() || first->first >= end) return std::nullopt;
  std::pair<std::int64_t, std::string> fault = *first;
  faults_.erase(first);
  return fault;
}

}  // namespace dtn::app
