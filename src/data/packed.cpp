// The data set in a packed file.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "data/packed_format.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "dtn/io/byte_source.h"
#include "dtn/io/crc32c.h"

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

  // Brings the part into memory, each page once and nothing around it. False when it cannot be
  // read, as on a bad disk or when the file has been cut; merely touching it would then end the
  // process (SIGBUS).
  bool bring_in(std::size_t begin, std::size_t bytes) const {
    if (bytes == 0) return true;
    std::byte* const from = at_ + begin / page_ * page_;
    const std::size_t length = static_cast<std::size_t>(at_ + begin + bytes - from);
    ::madvise(from, length, MADV_WILLNEED);
    while (::madvise(from, length, MADV_POPULATE_READ) != 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return errno == EINVAL && is_whole();  // a kernel before 5.14 does not know the request
    }
    return true;
  }

  void expect_random_reads() const { ::madvise(at_, size_, MADV_RANDOM); }

 private:
  bool is_whole() const {
    struct stat status {};
    return ::fstat(file_.descriptor(), &status) == 0 &&
           static_cast<std::size_t>(status.st_size) >= size_;
  }

  const FileSource& file_;
  std::byte* at_ = nullptr;
  std::size_t size_, page_;
};

class PackedDataset final : public Dataset {
 public:
  PackedDataset(const std::string& path, const ModelConfig& model, Split split)
      : path_(path), file_(path), index_(packed::read_packed_index(file_)), mapping_(file_) {
    if (index_.entries.empty()) throw DataError(cat(path_, ": holds no images"));
    check_class_count(index_.num_classes, model, path_);
    for (const packed::PackedEntry& entry : index_.entries) labels_.push_back(entry.label);
    class_names_ = std::move(index_.class_names);
    num_classes_ = index_.num_classes;
    description_ =
        cat(size(), " ", name_of(split), " images of ", num_classes_, " classes in ", path);
    mapping_.expect_random_reads();
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    const packed::PackedEntry& e = entry(index);
    name_into(e, workspace.name);
    if (!mapping_.bring_in(e.at, e.bytes)) fail_reading(workspace.name);
    const auto record = mapping_.bytes().subspan(e.at, e.bytes);
    if (crc32c(record) != e.crc) {
      throw DataError(cat(workspace.name,
                          ": the record does not match its checksum; the file is "
                          "damaged, pack the data again"));
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
  void name_into(const packed::PackedEntry& entry, std::string& name) const {
    name.assign(path_).append(": ").append(index_.name(entry));
  }
  [[noreturn]] void fail_reading(const std::string& what) const {
    throw DataError(cat("cannot read ", what, ": the disk fails or the file has been cut"));
  }

  std::string path_;
  FileSource file_;
  packed::PackedIndex index_;
  Mapping mapping_;  // of the records
};

}  // namespace

std::unique_ptr<Dataset> open_packed(const DataConfig& data, const ModelConfig& model,
                                     Split split) {
  const auto& given = split == Split::kTrain ? data.train : data.val;
  const fs::path path = fs::path(data.root) / given.value_or(cat(name_of(split), ".packed"));
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw DataError(cat("no such file: ", path.string(), "; make it with `dtn-data pack`, or set ",
                        "data.root and data.", name_of(split), " (see data/README.md)"));
  }
  return std::make_unique<PackedDataset>(path.string(), model, split);
}

}  // namespace dtn
