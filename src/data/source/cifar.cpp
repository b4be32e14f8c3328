#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/text.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "io/file.h"

namespace dtn {

namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;
constexpr std::size_t kPlane = std::size_t{kSide} * kSide;

// CIFAR's binary version: records of one or two label bytes and the planes of red, green and blue.
struct Layout {
  const char* name;
  const char* folder;  // folder in the archive
  std::vector<std::string> train_files, val_files;
  const char* names_file;
  std::size_t label_bytes;  // the last one is the class
  std::size_t num_classes;
  std::size_t record() const { return label_bytes + 3 * kPlane; }
};

Layout layout_of(const std::string& dataset) {
  if (dataset == "cifar10") {
    return {"CIFAR-10",
            "cifar-10-batches-bin",
            {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
             "data_batch_5.bin"},
            {"test_batch.bin"},
            "batches.meta.txt",
            1,
            10};
  }
  return {"CIFAR-100", "cifar-100-binary", {"train.bin"}, {"test.bin"}, "fine_label_names.txt", 2,
          100};
}

fs::path find_folder(const std::string& root, const Layout& layout, const std::string& file) {
  std::error_code ignored;
  for (fs::path folder : {fs::path(root), fs::path(root) / layout.folder}) {
    if (fs::exists(folder / file, ignored)) return folder;
  }
  throw DataError(cat("no ", file, " in ", root.empty() ? "." : root, " or its folder ",
                      layout.folder, "; set data.root to where the binary version of ", layout.name,
                      " was unpacked (data/README.md says where to get it)"));
}

// Reads one name per line. Returns nothing if the file is absent or has another number of names.
std::vector<std::string> read_class_names(const fs::path& file, std::size_t count) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  const std::string text = read_text(file.string(), 1 << 20);
  std::vector<std::string> names;
  for (std::string_view rest = text; !rest.empty();) {
    if (const std::string_view line = take_line(rest); !line.empty()) names.emplace_back(line);
  }
  return names.size() == count ? names : std::vector<std::string>{};
}

class CifarDataset final : public Dataset {
 public:
  CifarDataset(const DataConfig& data, std::int64_t model_classes, Split split)
      : layout_(layout_of(data.dataset)) {
    const auto& files = split == Split::kTrain ? layout_.train_files : layout_.val_files;
    fs::path folder = find_folder(data.root, layout_, files.front());
    for (const std::string& file : files) add_file((folder / file).string(), model_classes);
    num_classes_ = static_cast<std::int64_t>(layout_.num_classes);
    class_names_ = read_class_names(folder / layout_.names_file, layout_.num_classes);
    description_ =
        cat(layout_.name, " ", name_of(split), ", ", size(), " images from ", folder.string());
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    const auto [file, record] = locate(index);
    const std::byte* planes =
        files_[file].bytes.data() + record * layout_.record() + layout_.label_bytes;
    Image& image = workspace.image;
    image.reshape(kSide, kSide, 3);
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < kPlane; ++i) {
        image.pixels[3 * i + c] = std::to_integer<std::uint8_t>(planes[c * kPlane + i]);
      }
    }
    return {.encoded = {}, .image = &image, .ready = {}};
  }

  std::string sample_name(std::int64_t index) const override {
    const auto [file, record] = locate(index);
    return cat(files_[file].path, "[", record, "]");
  }

 private:
  struct File {
    std::string path;
    std::vector<std::byte> bytes;
    std::size_t first;  // index of its first record in the data set
  };

  void add_file(const std::string& path, std::int64_t model_classes) {
    std::vector<std::byte> bytes = read_file(path);
    std::size_t record = layout_.record();
    if (bytes.empty() || bytes.size() % record != 0) {
      throw DataError(cat(path, ": ", bytes.size(), " bytes are not a whole number of ", record,
                          "-byte records of ", layout_.name,
                          "; is it the binary version? Fetch it again (see data/README.md)"));
    }
    std::vector<std::int64_t> labels(bytes.size() / record);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = std::to_integer<std::int64_t>(bytes[i * record + layout_.label_bytes - 1]);
    }
    // A label that the format does not know is damage, even if the model would accept it.
    std::int64_t known = static_cast<std::int64_t>(layout_.num_classes);
    check_labels(labels, std::min(known, model_classes), path);
    files_.push_back({path, std::move(bytes), labels_.size()});
    labels_.insert(labels_.end(), labels.begin(), labels.end());
  }

  // Returns the file and the record of a sample.
  std::pair<std::size_t, std::size_t> locate(std::int64_t index) const {
    std::size_t i = static_cast<std::size_t>(index);
    std::size_t file = files_.size() - 1;
    while (files_[file].first > i) --file;
    return {file, i - files_[file].first};
  }

  Layout layout_;
  std::vector<File> files_;
};

}  // namespace

std::unique_ptr<Dataset> open_cifar(const DataConfig& data, const ModelConfig& model, Split split) {
  return std::make_unique<CifarDataset>(data, model.num_classes, split);
}

}  // namespace dtn
