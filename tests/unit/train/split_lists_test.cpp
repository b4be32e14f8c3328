// The lists of the files of both splits in a run folder.
#include "train/record/split_lists.h"

#include <gtest/gtest.h>

#include "data/table/label_table.h"
#include "dtn/data/dataset.h"
#include "io/file.h"
#include "temp_folder.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class NamedImages final : public Dataset {
 public:
  NamedImages(Names files, std::vector<std::int64_t> labels, bool has_labels = true)
      : files_(std::move(files)) {
    labels_ = std::move(labels);
    class_names_ = {"cat", "a \"dog\""};
    num_classes_ = 2;
    has_labels_ = has_labels;
  }
  Sample load(std::int64_t, SampleWorkspace&) const override { return {}; }
  std::string sample_name(std::int64_t index) const override { return "/data/" + file_name(index); }
  std::string file_name(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)];
  }

 private:
  Names files_;
};

// Samples of a data set, or of none.
class NamedSamples final : public SampleSource {
 public:
  explicit NamedSamples(const Dataset* images = nullptr) : images_(images) {}
  std::int64_t size() const override { return images_ ? images_->size() : 1; }
  const std::string& description() const override { return description_; }
  std::vector<FieldSpec> host_fields() const override { return {}; }
  void make(std::int64_t, const SampleKey&, FieldRow&, Workspace&) const override {}
  const Dataset* source_dataset() const override { return images_; }

 private:
  const Dataset* images_;
  std::string description_ = "named samples";
};

std::string content(const fs::path& run, const std::string& name) {
  return read_text((run / "splits" / name).string());
}

TEST(SplitLists, WritesTablesOfLabels) {
  const test::TempFolder folder;
  const fs::path run = folder.path();
  const NamedImages train({"x/1.jpg", "a, b.jpg"}, {0, 1}), val({"2.jpg"}, {1});
  const NamedSamples training(&train), validation(&val);
  EXPECT_TRUE(write_split_lists(run, training, &validation, true).empty());
  EXPECT_EQ(content(run, "train.csv"), "path,label\nx/1.jpg,cat\n\"a, b.jpg\",\"a \"\"dog\"\"\"\n");
  EXPECT_EQ(content(run, "val.csv"), "path,label\n2.jpg,\"a \"\"dog\"\"\"\n");
  const LabelTable read = read_label_table(FileSource((run / "splits/train.csv").string()));
  EXPECT_EQ(read.paths.size(), 2u);
  EXPECT_EQ(read.paths[0], "a, b.jpg");
}

// Images with any number of labels: a table reads the same back, unless a name has a semicolon.
TEST(SplitLists, WritesAnyNumberOfLabels) {
  class SeveralLabels final : public Dataset {
   public:
    explicit SeveralLabels(Names names) {
      class_names_ = std::move(names);
      num_classes_ = 3;
      labels_.resize(3);
      has_labels_ = false;
      const std::vector<std::uint8_t> labels = {1, 0, 1, 0, 0, 0, 0, 1, 0};
      ready_fields_["labels"] = Tensor::from(labels, {3, 3});
    }
    Sample load(std::int64_t, SampleWorkspace&) const override { return {}; }
    std::string sample_name(std::int64_t index) const override { return file_name(index); }
    std::string file_name(std::int64_t index) const override { return cat(index, ".jpg"); }
  };
  const test::TempFolder folder;
  const SeveralLabels images({"cat", "dog", "big fish"});
  write_split_lists(folder.path(), NamedSamples(&images), nullptr, true);
  EXPECT_EQ(content(folder.path(), "train.csv"),
            "path,labels\n0.jpg,\"cat;big fish\"\n1.jpg,\n2.jpg,dog\n");
  const LabelTable read = read_label_table(
      FileSource((folder.path() / "splits/train.csv").string()), LabelsPerImage::kAny);
  EXPECT_EQ(read.combinations.size(), 3u);
  const SeveralLabels unclear({"cat", "dog", "big;fish"});
  write_split_lists(folder.path() / "unclear", NamedSamples(&unclear), nullptr, true);
  EXPECT_EQ(content(folder.path() / "unclear", "train.csv"), "path\n0.jpg\n1.jpg\n2.jpg\n");
}

TEST(SplitLists, NamesChangedLists) {
  const test::TempFolder folder;
  const fs::path run = folder.path();
  const NamedImages before({"1.jpg"}, {0}), after({"1.jpg", "2.jpg"}, {0, 1});
  const NamedSamples old_samples(&before), new_samples(&after);
  write_split_lists(run, old_samples, &old_samples, true);
  EXPECT_TRUE(write_split_lists(run, old_samples, &old_samples, true).empty());
  EXPECT_EQ(write_split_lists(run, new_samples, &old_samples, true), (Names{"splits/train.csv"}));
  EXPECT_EQ(content(run, "train.csv"), "path,label\n1.jpg,cat\n2.jpg,\"a \"\"dog\"\"\"\n");
}

TEST(SplitLists, WritesPathsWithoutLabels) {
  const test::TempFolder folder;
  const fs::path run = folder.path();
  const NamedImages plain({"1.jpg", "2.jpg"}, {0, 0}, false);
  const NamedImages sets({"1.jpg", "1.jpg", "2.jpg", "2.jpg"}, {0, 1, 0, 1});
  const NamedSamples training(&plain), validation(&sets);
  write_split_lists(run, training, nullptr, true);
  EXPECT_EQ(content(run, "train.csv"), "path\n1.jpg\n2.jpg\n");
  EXPECT_FALSE(fs::exists(run / "splits/val.csv"));
  write_split_lists(run, training, &validation, false);
  EXPECT_EQ(content(run, "val.csv"), "path\n1.jpg\n2.jpg\n") << "each image once";
}

TEST(SplitLists, WritesNothingWithoutDataset) {
  const test::TempFolder folder;
  write_split_lists(folder.path(), NamedSamples(), nullptr, true);
  EXPECT_FALSE(fs::exists(folder.path() / "splits"));
}

}  // namespace
}  // namespace dtn
