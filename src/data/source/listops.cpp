#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "data/listops/listops_file.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kArchiveFolder = "listops-1000";  // in the Long-Range Arena's archive

fs::path find_listops(const DataConfig& data, Split split) {
  const bool training = split == Split::kTrain;
  const std::string file = (training ? data.train : data.val)
                               .value_or(training ? listops::kTrainFile : listops::kValFile);
  const fs::path root = data.root;
  std::error_code ignored;
  for (const fs::path& path : {root / file, root / kArchiveFolder / file, fs::path(file)}) {
    if (fs::exists(path, ignored)) return path;
  }
  throw DataError(
      cat("no such file: ", (root / file).string(), ", nor in the folder ", kArchiveFolder,
          "; make the files with dtn-data listops --output ", data.root.empty() ? "DIR" : data.root,
          " --seed 0, or set data.root and data.", name_of(split), " (see data/README.md)"));
}

class ListopsDataset final : public Dataset {
 public:
  ListopsDataset(std::string file, const ModelConfig& model)
      : file_(std::move(file)), sequences_(listops::read_sequences(FileSource(file_))) {
    check_class_count(listops::kDigits, model, file_);
    labels_ = std::move(sequences_.labels);
    num_classes_ = listops::kDigits;
    for (int digit = 0; digit < listops::kDigits; ++digit) {
      class_names_.push_back(std::to_string(digit));
    }
    has_pixels_ = false;
    vocabulary_ = listops::kVocabulary;
    std::int64_t shortest = length(0), longest = 0;
    for (std::int64_t i = 0; i < size(); ++i) {
      shortest = std::min(shortest, length(i));
      longest = std::max(longest, length(i));
    }
    description_ = cat(size(), " sequences of ", shortest, " to ", longest, " tokens from ", file_);
  }

  Sample load(std::int64_t index, SampleWorkspace&) const override {
    return {.encoded = {}, .image = nullptr, .ready = {}, .tokens = at(index)};
  }
  std::int64_t length(std::int64_t index) const override {
    return static_cast<std::int64_t>(at(index).size());
  }
  // The line number, as in messages about the file. The first sequence follows the header.
  std::string sample_name(std::int64_t index) const override { return cat(file_, ":", index + 2); }

 private:
  std::span<const listops::Token> at(std::int64_t index) const {
    return sequences_.at(static_cast<std::size_t>(index));
  }

  std::string file_;
  listops::LabelledSequences sequences_;
};

}  // namespace

std::unique_ptr<Dataset> open_listops(const DataConfig& data, const ModelConfig& model,
                                      Split split) {
  return std::make_unique<ListopsDataset>(find_listops(data, split).string(), model);
}

}  // namespace dtn
