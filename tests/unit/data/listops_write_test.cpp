// The files that dtn-data listops writes.
#include <algorithm>
#include <filesystem>

#include "data/listops/listops_file.h"
#include "data/listops/write_files.h"
#include "data_fixtures.h"
#include "io/file.h"
#include "listops_trees.h"

namespace dtn::listops {
namespace {

namespace fs = std::filesystem;
using namespace dtn::test;

std::string text_of(const fs::path& file) {
  const std::vector<std::byte> bytes = read_file(file.string());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

class ListopsFiles : public testing::Test {
 protected:
  ListopsFiles() {
    options.output = dir.path() / "a" / "b";
    options.seed = 4;
    options.train = 60;
    options.val = 20;
    options.test = 30;
    options.limits = {20, 60, 10, 10};
  }
  TempFolder dir;
  WriteOptions options;
};

TEST_F(ListopsFiles, KeepOrderOfDrawing) {
  DrawOptions same = drawing(110, options.limits, 4);
  const Trees trees = draw(same);
  for (int jobs : {1, 4}) {
    options.jobs = jobs;
    options.output = dir.path() / std::to_string(jobs);
    const WriteReport report = write_files(options);
    EXPECT_EQ(report.trees, 110);
    EXPECT_EQ(report.tries, trees.report.tries);
    EXPECT_FALSE(report.stopped);
    EXPECT_EQ(files_in(options.output), 3u);
    std::size_t at = 0;
    std::int64_t bytes = 0;
    for (auto [file, count] :
         {std::pair{kTrainFile, 60u}, std::pair{kValFile, 20u}, std::pair{kTestFile, 30u}}) {
      std::string wanted = "Source\tTarget\n";
      for (unsigned i = 0; i < count; ++i) wanted += trees.lines[at++];
      const std::string text = text_of(options.output / file);
      EXPECT_EQ(text, wanted) << file;
      bytes += static_cast<std::int64_t>(text.size());
      const LabelledSequences read = read_sequences(FileSource((options.output / file).string()));
      ASSERT_EQ(read.size(), count);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(std::ranges::equal(read.at(i), trees.tokens[at - count + i]));
        EXPECT_EQ(read.labels[i], trees.values[at - count + i]);
      }
    }
    EXPECT_EQ(report.bytes, bytes);
  }
}

TEST_F(ListopsFiles, NeverOverwriteOtherFiles) {
  fs::create_directories(options.output);
  write_bytes(options.output / "notes.txt", {'x'});
  expect_error<ConfigError>([&] { write_files(options); },
                            {options.output.string(), "was not changed", "notes.txt", "--output"});
  EXPECT_EQ(files_in(options.output), 1u);
  fs::remove(options.output / "notes.txt");
  write_bytes(options.output / "mine.tsv.tmp-1-1", {'x'});
  expect_error<ConfigError>([&] { write_files(options); }, {"mine.tsv.tmp-1-1"});
  EXPECT_EQ(files_in(options.output), 1u);
  fs::remove(options.output / "mine.tsv.tmp-1-1");
  // Temporary files of a killed process are removed.
  write_bytes(options.output / "basic_train.tsv.tmp-1-1", {'x'});
  write_files(options);
  EXPECT_EQ(files_in(options.output), 3u);
  const std::string before = text_of(options.output / kTrainFile);
  options.seed = 5;
  expect_error<ConfigError>([&] { write_files(options); }, {"basic_", "was not changed"});
  EXPECT_EQ(text_of(options.output / kTrainFile), before);
  options.output = options.output / kTrainFile;
  expect_error<ConfigError>([&] { write_files(options); }, {"basic_train.tsv is not a folder"});
}

TEST_F(ListopsFiles, AreWrittenAllOrNone) {
  int calls = 0;
  options.train = 100'000;
  const WriteReport report = write_files(options, [&](std::int64_t, std::int64_t) {
    EXPECT_TRUE(fs::exists(options.output));
    EXPECT_FALSE(fs::exists(options.output / kTrainFile));
    return ++calls < 2;
  });
  EXPECT_TRUE(report.stopped);
  EXPECT_FALSE(fs::exists(options.output)) << "an empty folder is left behind";
  expect_error<std::domain_error>(
      [&] {
        write_files(options,
                    [](std::int64_t, std::int64_t) -> bool { throw std::domain_error("no more"); });
      },
      {"no more"});
  EXPECT_FALSE(fs::exists(options.output));
  fs::create_directories(options.output);
  write_files(options, [](std::int64_t, std::int64_t) { return false; });
  EXPECT_EQ(files_in(options.output), 0u) << "a folder that was there stays";
}

TEST_F(ListopsFiles, LeaveNothingForImpossibleOptions) {
  const auto expect_impossible = [&](const std::vector<std::string>& parts) {
    expect_error<ConfigError>([&] { write_files(options); }, parts);
    EXPECT_FALSE(fs::exists(dir.path() / "a"));
  };
  options.train = 0;
  expect_impossible({"--train is 0", "from 1 to 1000000000"});
  options.train = 1;
  options.val = -3;
  expect_impossible({"--val is -3"});
  options.val = 1;
  options.test = std::int64_t{1} << 40;
  expect_impossible({"--test is 1099511627776"});
  options.test = 1;
  options.limits = {3, 3, 10, 10};
  expect_impossible({"--max-length 3"});
  options.limits = {3, 6, 10, 10};
  options.train = 4399;
  expect_impossible({"only 4400", "4401 are requested"});
}

}  // namespace
}  // namespace dtn::listops
