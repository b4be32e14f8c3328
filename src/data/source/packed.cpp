// The data set in a packed file.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "data/source/image_names.h"
#include "data/source/label_matrix.h"
#include "data/source/packed_format.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "io/crc32c.h"
#include "io/file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

// A file mapped for reading.
class Mapping {
 public:
  explicit Mapping(const FileSource& file)
      : file_(file),
        size_(static_cast<std::size_t>(file.size())),
        page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    if (size_ == 0) throw DataError(cat(file.name(), ": is empty; pack the data again"));
    void* at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (at == MAP_FAILED) {
      throw DataError(cat("cannot map ", file.name(), ": ", std::strerror(errno)));
    }
    at_ = static_cast<std::byte*>(at);
  }
  ~Mapping() { ::munmap(at_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const std::byte> bytes() const { return {at_, size_}; }

  // Starts reading this part ahead, all of it at once and nothing around it.
  void read_ahead(std::size_t begin, std::size_t bytes) const {
    if (bytes > 0) ::madvise(page_of(begin), from_page(begin, bytes), MADV_WILLNEED);
  }

  // Waits until the part is in memory. Returns false if it cannot be read, as on a bad disk. An
  // access would then end the process (SIGBUS).
  bool bring_in(std::size_t begin, std::size_t bytes) const {
    if (bytes == 0) return true;
    while (::madvise(page_of(begin), from_page(begin, bytes), MADV_POPULATE_READ) != 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return errno == EINVAL;  // a kernel before 5.14 does not know the request
    }
    return true;
  }

  // Returns false if the file was cut after it was mapped.
  bool is_whole() const {
    struct stat status {};
    return ::fstat(file_.descriptor(), &status) == 0 &&
           static_cast<std::size_t>(status.st_size) >= size_;
  }

  void expect_random_reads() const { ::madvise(at_, size_, MADV_RANDOM); }

 private:
  std::byte* page_of(std::size_t at) const { return at_ + at / page_ * page_; }
  std::size_t from_page(std::size_t begin, std::size_t bytes) const {
    return begin % page_ + bytes;
  }

  const FileSource& file_;
  std::byte* at_ = nullptr;
  std::size_t size_, page_;
};

class PackedDataset final : public Dataset {
 public:
  // `labels`: those that the caller needs; unset: those that the file has.
  PackedDataset(const std::string& path, const ModelConfig& model, Split split,
                std::optional<LabelsPerImage> labels)
      : path_(path), file_(path), index_(packed::read_packed_index(file_)), mapping_(file_) {
    if (index_.entries.empty()) throw DataError(cat(path_, ": holds no images"));
    if (labels) check_kind(*labels);
    if (index_.labels.defined()) {
      ready_fields_["labels"] = std::move(index_.labels);
      has_labels_ = false;
    } else {
      check_class_count(index_.num_classes, model, path_);
    }
    for (const packed::PackedEntry& entry : index_.entries) labels_.push_back(entry.label);
    class_names_ = std::move(index_.class_names);
    num_classes_ = index_.num_classes;
    description_ = images_of_classes(*this, name_of(split), path);
    mapping_.expect_random_reads();
    verified_ = std::vector<std::atomic<bool>>(labels_.size());
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    const packed::PackedEntry& e = entry(index);
    name_into(e, workspace.name);
    if (!mapping_.is_whole()) fail_reading(workspace.name);
    mapping_.read_ahead(e.at, e.bytes);
    const auto record = mapping_.bytes().subspan(e.at, e.bytes);
    std::atomic<bool>& verified = verified_[static_cast<std::size_t>(index)];
    if (!verified.load(std::memory_order_relaxed)) {
      verify(e, record, workspace.name);
      verified.store(true, std::memory_order_relaxed);
    }
    return {.encoded = record, .image = nullptr, .ready = {}};
  }

  std::string sample_name(std::int64_t index) const override {
    std::string name;
    name_into(entry(index), name);
    return name;
  }

  std::string item_name(std::int64_t index) const override {
    return std::string(index_.name(entry(index)));
  }

 private:
  const packed::PackedEntry& entry(std::int64_t index) const {
    return index_.entries[static_cast<std::size_t>(index)];
  }
  void check_kind(LabelsPerImage labels) const {
    const bool any = labels == LabelsPerImage::kAny;
    if (any == index_.labels.defined()) return;
    throw DataError(cat(path_, any ? ": its images have one label each; set task: classify"
                                   : ": its images have any number of labels; set task: "
                                     "multilabel"));
  }
  // A record that fails is verified again each time, so the result does not depend on the past.
  void verify(const packed::PackedEntry& entry, std::span<const std::byte> record,
              const std::string& name) const {
    if (!mapping_.bring_in(entry.at, entry.bytes)) fail_reading(name);
    if (crc32c(record) == entry.crc) return;
    throw DataError(cat(name,
                        ": the record does not match its checksum; the file is damaged, pack ",
                        "the data again"));
  }
  void name_into(const packed::PackedEntry& entry, std::string& name) const {
    name.assign(path_).append(": ").append(index_.name(entry));
  }
  [[noreturn]] void fail_reading(const std::string& what) const {
    throw DataError(cat("cannot read ", what, ": the disk has failed, or the file was truncated"));
  }

  std::string path_;
  FileSource file_;
  packed::PackedIndex index_;
  Mapping mapping_;  // for the records
  mutable std::vector<std::atomic<bool>> verified_;
};

std::unique_ptr<Dataset> open_file(const DataConfig& data, const ModelConfig& model, Split split,
                                   std::optional<LabelsPerImage> labels) {
  const auto& given = split == Split::kTrain ? data.train : data.val;
  const fs::path path = fs::path(data.root) / given.value_or(cat(name_of(split), ".packed"));
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw DataError(cat("no such file: ", path.string(), "; make it with `dtn-data pack`, or set ",
                        "data.root and data.", name_of(split), " (see data/README.md)"));
  }
  return std::make_unique<PackedDataset>(path.string(), model, split, labels);
}

}  // namespace

std::unique_ptr<Dataset> open_packed(const DataConfig& data, const ModelConfig& model,
                                     Split split) {
  return open_file(data, model, split, LabelsPerImage::kOne);
}

std::unique_ptr<Dataset> open_multilabel_packed(const DataConfig& data, const ModelConfig& model,
                                                Split split) {
  return open_file(data, model, split, LabelsPerImage::kAny);
}

std::unique_ptr<Dataset> open_any_packed(const DataConfig& data, const ModelConfig& model,
                                         Split split) {
  return open_file(data, model, split, std::nullopt);
}

}  // namespace dtn
