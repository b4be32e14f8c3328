// ListOps, from files to batches of tokens.
#include <algorithm>
#include <numeric>

#include "data/feed/loader.h"
#include "data/feed/open_split.h"
#include "data/feed/token_samples.h"
#include "data/listops/listops_file.h"
#include "data/listops/write_files.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;
using namespace dtn::test;
using listops::LabelledSequences;
using Ids = std::vector<int>;

constexpr const char* kHead = "Source\tTarget\n";

LabelledSequences parse(const std::string& text) {
  return listops::read_sequences(
      MemorySource(std::as_bytes(std::span(text.data(), text.size())), "f.tsv"));
}

Ids ids_of(const LabelledSequences& sequences, std::size_t i) {
  const auto tokens = sequences.at(i);
  return {tokens.begin(), tokens.end()};
}

TEST(ListopsFile, ReadsTokensAndLabels) {
  const LabelledSequences read =
      parse(cat(kHead, "( ( ( [MAX 4 ) 3 ) ] )\t4\n", "( ( ( ( [MED 0 ) ( ( ( [SM 9 ) 8 ) ] ) ) ",
                "( ( ( [MIN 1 ) 2 ) ] ) ) ] )\t1\n", "7\t7"));
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(ids_of(read, 0), (Ids{11, 5, 4, 15}));
  EXPECT_EQ(ids_of(read, 1), (Ids{12, 1, 14, 10, 9, 15, 13, 2, 3, 15, 15}));
  EXPECT_EQ(ids_of(read, 2), (Ids{8}));
  EXPECT_EQ(read.labels, (std::vector<std::int64_t>{4, 1, 7}));
}

TEST(ListopsFile, ReadsOtherNotations) {
  const std::string lines = "( ( ( [MAX 4 ) 3 ) ] )\t4\n( ( ( [SM 0 ) 5 ) ] )\t5\n";
  const LabelledSequences usual = parse(kHead + lines);
  std::string windows = kHead + lines;
  for (std::size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2) {
    windows.replace(at, 1, "\r\n");
  }
  const std::string python = cat(kHead, "  [MAX 4  3  X \t4\n   [SM 0  5  X \t5\n");
  const std::string tight = cat(kHead, "((([MAX 4) 3)]) \t4\n[SM 0 5 ]\t5");
  for (const std::string& text : {windows, python, tight, windows.substr(0, windows.size() - 2)}) {
    const LabelledSequences other = parse(text);
    EXPECT_EQ(other.tokens, usual.tokens) << text;
    EXPECT_EQ(other.ends, usual.ends) << text;
    EXPECT_EQ(other.labels, usual.labels) << text;
  }
}

TEST(ListopsFile, ErrorsNameLine) {
  const auto expect_fault = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_error<DataError>([&] { parse(text); }, parts);
  };
  const std::string good = cat(kHead, "( ( ( [MAX 4 ) 3 ) ] )\t4\n");
  expect_fault("", {"f.tsv: holds no sequences"});
  expect_fault(kHead, {"f.tsv: holds no sequences"});
  expect_fault("Source,Target\n1\t1\n", {"f.tsv:1:", "'Source'", "tab", "'Source,Target'"});
  expect_fault("\xEF\xBB\xBFSource\tTarget\n1\t1\n", {"f.tsv:1:", "\\xef\\xbb\\xbfSource"});
  expect_fault("5\t5\n", {"f.tsv:1:", "'5\\x095'"});
  expect_fault(good + "( ( ( [MAX 4 ) 3 ) ] ) 4\n", {"f.tsv:3:", "no tab"});
  expect_fault(good + "\n" + good, {"f.tsv:3:", "no tab"});
  expect_fault(good + "\t4\n", {"f.tsv:3:", "empty"});
  expect_fault(good + "( ( ) )\t4\n", {"f.tsv:3:", "empty"});
  for (const char* target : {"", " 4", "12", "a", "]", "X", "4\t4", "4\t", "-1", "4\r"}) {
    expect_fault(good + "3\t" + target + "\r\n", {"f.tsv:3:", "target must be a digit"});
  }
  for (const char* word : {"[AVG", "[MAXX", "[MA", "MAX", "10", "3]", "x", "]]", "[max", "4\v"}) {
    expect_fault(cat(good, "( ( ( [MIN 4 ) ", word, " ) ] )\t4\n"), {"f.tsv:3:", "unknown word"});
  }
  expect_fault(cat(good, "( ( ( [AVG 4 ) 3 ) ] )\t4\n"), {"unknown word '[AVG'"});
  expect_fault(good + std::string("3 \0 4\t4\n", 8), {"f.tsv:3:", "unknown word '\\x00'"});
  expect_fault(good + "\033[2J\t4\n", {"f.tsv:3:", "'\\x1b[2J'"});
  expect_fault(good + std::string(5000, 'a') + "\t4\n",
               {"unknown word 'aaaaaaaaaaaaaaaaaaaaaaaa...'"});
  expect_fault(good + "1\t1\n[MAX 4 3\t4\n", {"f.tsv:4: the source has an operator without its ]"});
  expect_fault(good + "4 3 ]\t4\n", {"f.tsv:3: the source continues after the end"});
  expect_fault(good + "]\t4\n", {"f.tsv:3: the source has a ] without an operator"});
  expect_fault(good + "[MAX ]\t4\n", {"f.tsv:3: the source has an operator without arguments"});
  // A carriage return is valid only at the end of a line.
  expect_fault(cat(kHead, "[MAX 4 \r 3 ]\t4\n"), {"f.tsv:2:", "unknown word '\\x0d'"});
}

TEST(ListopsFile, RejectsTooLongLines) {
  const std::string ones = [] {
    std::string text = "[MAX";
    for (int i = 0; i < 3'000'000; ++i) text += " 1";
    return text + " ]";
  }();
  EXPECT_EQ(parse(cat(kHead, ones, "\t1\n3\t3\n")).at(0).size(), 3'000'002u);
  for (const char* end : {"\t1\n", ""}) {
    expect_error<DataError>([&] { parse(cat(kHead, "1\t1\n", ones, ones, ones, end)); },
                            {"f.tsv:3:", "more than 16777216 bytes"});
    expect_error<DataError>([&] { parse(std::string(20'000'000, 'S') + end); },
                            {"f.tsv:1:", "more than 16777216 bytes"});
  }
}

// Files are read in blocks, and lines may cross the boundaries of blocks.
TEST(ListopsFile, DoesNotDependOnBlockSize) {
  std::string text = kHead;
  std::vector<std::int64_t> labels;
  for (int i = 0; text.size() < 3'000'000; ++i) {
    text += cat("( ( ( [SM ", i % 10, " ) ", i / 10 % 10, " ) ] )\t", i * 7 % 10, "\r\n");
    labels.push_back(i * 7 % 10);
  }
  const LabelledSequences read = parse(text);
  ASSERT_EQ(read.labels, labels);
  for (std::size_t i = 0; i < read.size(); ++i) {
    const int n = static_cast<int>(i);
    ASSERT_EQ(ids_of(read, i), (Ids{14, 1 + n % 10, 1 + n / 10 % 10, 15})) << i;
  }
}

class Listops : public testing::Test {
 protected:
  Listops() {
    listops::WriteOptions options;
    options.output = dir.path() / "files";
    options.train = 90;
    options.val = 12;
    options.test = 7;
    options.limits = {10, 80, 10, 10};
    write_files(options);
    config.data.dataset = "listops";
    config.data.root = options.output.string();
    config.model.num_classes = 10;
  }
  std::unique_ptr<Dataset> open(Split split) {
    return open_dataset(config.data, config.model, split, 0);
  }
  std::shared_ptr<const TokenSamples> samples(Split split, const TokenSamplesOptions& options) {
    return std::make_shared<TokenSamples>(open(split), options);
  }

  TempFolder dir;
  ExperimentConfig config;
};

TEST_F(Listops, OpensAsDataset) {
  for (auto [split, file, size] :
       {std::tuple{Split::kTrain, "basic_train.tsv", 90}, {Split::kVal, "basic_val.tsv", 12}}) {
    const auto set = open(split);
    const std::string path = config.data.root + "/" + file;
    const LabelledSequences read = listops::read_sequences(FileSource(path));
    ASSERT_EQ(set->size(), size);
    EXPECT_EQ(set->num_classes(), 10);
    EXPECT_EQ(set->class_names(),
              (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
    EXPECT_EQ(set->vocabulary(), 17);
    EXPECT_FALSE(set->has_pixels());
    EXPECT_EQ(set->sample_name(3), path + ":5");
    EXPECT_NE(set->description().find(cat(size, " sequences of 1")), std::string::npos);
    for (std::int64_t i = 0; i < size; ++i) {
      SampleWorkspace workspace;
      const Sample sample = set->load(i, workspace);
      EXPECT_TRUE(std::ranges::equal(sample.tokens, read.at(static_cast<std::size_t>(i))));
      EXPECT_EQ(set->length(i), static_cast<std::int64_t>(sample.tokens.size()));
      EXPECT_EQ(set->label(i), read.labels[static_cast<std::size_t>(i)]);
    }
  }
}

TEST_F(Listops, FindsFilesByPathOrName) {
  for (const std::string& name :
       {config.data.root + "/basic_test.tsv", std::string("basic_test.tsv")}) {
    config.data.val = name;
    EXPECT_EQ(open(Split::kVal)->size(), 7) << name;
  }
  // A path relative to the working directory, although it begins with the root.
  config.data.root = fs::relative(config.data.root).string();
  config.data.val = config.data.root + "/basic_test.tsv";
  EXPECT_EQ(open(Split::kVal)->size(), 7);
  // The layout of the unpacked archive of the Long-Range Arena.
  config.data.val.reset();
  fs::create_directories(dir.path() / "lra");
  fs::rename(dir.path() / "files", dir.path() / "lra" / "listops-1000");
  config.data.root = (dir.path() / "lra").string();
  EXPECT_EQ(open(Split::kTrain)->size(), 90);
  config.data.root = dir.string();
  expect_error<DataError>([&] { open(Split::kVal); },
                          {dir.string() + "/basic_val.tsv", "listops-1000", "dtn-data listops",
                           "data.val", "data/README.md"});
}

TEST_F(Listops, RequiresTenClasses) {
  config.model.num_classes = 9;
  expect_error<DataError>([&] { open(Split::kVal); },
                          {"basic_val.tsv", "10 classes", "set it to 10"});
  config.model.num_classes = 2;
  config.data.classes = {9, 0};
  const auto some = open(Split::kTrain);
  EXPECT_EQ(some->vocabulary(), 17);
  EXPECT_EQ(some->class_names(), (std::vector<std::string>{"9", "0"}));
  EXPECT_NE(some->description().find("sequences of 2 classes"), std::string::npos);
  SampleWorkspace workspace;
  for (std::int64_t i = 0; i < some->size(); ++i) {
    EXPECT_EQ(some->length(i), static_cast<std::int64_t>(some->load(i, workspace).tokens.size()));
    EXPECT_GT(some->length(i), 10);
  }
}

TEST_F(Listops, GivesBatchesOfTokens) {
  const auto source = samples(Split::kTrain, {.max_length = 60});
  const auto set = open(Split::kTrain);
  std::int64_t cut = 0;
  for (std::int64_t i = 0; i < 90; ++i) cut += set->length(i) > 60;
  ASSERT_GT(cut, 3);
  EXPECT_EQ(source->noun(), "sequences");
  EXPECT_EQ(source->class_names(), set->class_names());
  EXPECT_EQ(source->host_fields(), (std::vector<FieldSpec>{{"tokens", {60}, DType::kInt64, true},
                                                           {"label", {}, DType::kInt64}}));
  EXPECT_NE(source->identity(0), source->identity(1));
  EXPECT_EQ(source->identity(5), samples(Split::kTrain, {.max_length = 80})->identity(5));
  for (int workers : {0, 3}) {
    const auto split = open_split(source, config, Split::kVal, {.batch_size = 8});
    LoaderOptions options;
    options.batch_size = 8;
    options.workers = workers;
    Loader loader(source, options);
    loader.start(0);
    Batch batch;
    std::int64_t next = 0;
    while (loader.next(batch)) {
      const Tensor& tokens = batch.fields.at("tokens");
      ASSERT_EQ(tokens.shape(), (Shape{batch.n, 60}));
      for (std::int64_t row = 0; row < batch.n; ++row, ++next) {
        SampleWorkspace workspace;
        Ids wanted;
        for (const std::uint8_t t : set->load(next, workspace).tokens) wanted.push_back(t);
        wanted.resize(std::min<std::size_t>(wanted.size(), 60));
        EXPECT_EQ(
            batch.fields.at("tokens.lengths").values<std::int64_t>()[static_cast<std::size_t>(row)],
            static_cast<std::int64_t>(wanted.size()));
        EXPECT_EQ(batch.fields.at("label").values<std::int64_t>()[static_cast<std::size_t>(row)],
                  set->label(next));
        wanted.resize(60);  // pads
        const auto found = tokens.slice(row, row + 1).values<std::int64_t>();
        EXPECT_TRUE(std::ranges::equal(found, wanted)) << next;
      }
    }
    EXPECT_EQ(next, 90);
  }
}

TEST_F(Listops, CannotBeMixedWithImages) {
  expect_error<ConfigError>([&] { open_image_samples(config, Split::kVal, kCpu); },
                            {"takes images", "sequences", "basic_val.tsv"});
  config.data.dataset = "synthetic";
  expect_error<ConfigError>([&] { samples(Split::kVal, {.max_length = 60}); },
                            {"takes sequences", "synthetic val images", "data.dataset"});
}

// The loader asks the source for lengths only if it shuffles.
TEST_F(Listops, GroupsSequencesOfSimilarLength) {
  const auto mean_spread = [&](bool by_length, bool shuffle) {
    const auto source = samples(Split::kTrain, {.max_length = 60, .batches_by_length = by_length});
    LoaderOptions options;
    options.batch_size = 6;
    options.shuffle = shuffle;
    options.drop_last = true;
    Loader loader(source, options);
    loader.start(2);
    Batch batch;
    std::int64_t spread = 0;
    Ids seen;
    while (loader.next(batch)) {
      const auto lengths = batch.fields.at("tokens.lengths").values<std::int64_t>();
      const auto [least, most] = std::ranges::minmax(lengths);
      spread += most - least;
      for (std::int64_t i : batch.indices) seen.push_back(static_cast<int>(i));
    }
    std::ranges::sort(seen);
    Ids all(90);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
    return static_cast<double>(spread) / 15;
  };
  const double any = mean_spread(false, true);
  EXPECT_GT(any, 25);
  EXPECT_LT(mean_spread(true, true), any / 2);
  EXPECT_GT(mean_spread(true, false), any / 2) << "the order of the file is kept";
}

}  // namespace
}  // namespace dtn
