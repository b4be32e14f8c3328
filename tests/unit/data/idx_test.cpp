#include "data_fixtures.h"
#include "dtn/data/datasets.h"
#include "io/gzip.h"

namespace dtn {
namespace {

using namespace dtn::test;

IdxArray parse(const Bytes& file) { return parse_idx(bytes_of(file), "some.idx"); }

void expect_refused(const Bytes& file, const std::string& why) {
  expect_error<DataError>([&] { parse(file); }, {"some.idx", why});
}

TEST(ParseIdx, ReadsPlainAndGzippedFiles) {
  Bytes values = noise(2 * 3 * 5, 1);
  for (const Bytes& file : {idx_file({2, 3, 5}, values), gzipped(idx_file({2, 3, 5}, values))}) {
    IdxArray array = parse(file);
    EXPECT_EQ(array.dims, (std::vector<std::int64_t>{2, 3, 5}));
    EXPECT_EQ(array.values, values);
  }
}

TEST(ParseIdx, RejectsBadHeaders) {
  expect_refused({}, "too short");
  expect_refused({0, 0, 8}, "too short");
  expect_refused({1, 0, 8, 1, 0, 0, 0, 1, 7}, "two zero bytes");
  expect_refused(idx_file({1}, {7}, 0x0d), "type 13");
  expect_refused(idx_file({}, {7}), "0 dimensions");
  expect_refused(idx_file({1, 1, 1, 1, 1}, {7}), "5 dimensions");
  expect_refused({0, 0, 8, 3, 0, 0, 0, 1, 0, 0}, "within its IDX header");
  expect_refused(idx_file({0}, {}), "empty");
  expect_refused(idx_file({2, 0, 2}, {}), "dimension 1 is 0");
}

TEST(ParseIdx, SizesMustMatchHeader) {
  expect_refused(idx_file({4}, {1, 2, 3}), "cut short");
  expect_refused(idx_file({4}, {1, 2, 3, 4, 5}), "more than the 4 bytes");
  expect_refused(gzipped(idx_file({4}, {1, 2, 3})), "cut short");
  expect_refused(gzipped(idx_file({4}, {1, 2, 3, 4, 5})), "more than the 4 bytes");
}

TEST(ParseIdx, RejectsHostileSizesWithoutAllocatingThem) {
  const std::uint32_t most = 0xffffffffu;
  expect_refused(idx_file({most, most, most}, {1}), "64 bits");
  expect_refused(idx_file({most, most}, {1}), "at most");
  expect_refused(idx_file({most}, {1}), "at most");
  expect_refused(gzipped(idx_file({most, most}, {1})), "at most");
  expect_refused(gzipped(idx_file({most}, {1})), "at most");
}

TEST(ParseIdx, GzipBombStopsAtHeaderSize) {
  Bytes bomb = gzipped(idx_file({4}, Bytes(64 << 20, 0)));
  ASSERT_LT(bomb.size(), 100'000u);
  expect_refused(bomb, "more than the 4 bytes");
}

TEST(ParseIdx, RejectsDamagedGzip) {
  const Bytes good = gzipped(idx_file({1000}, noise(1000, 3)));
  Bytes cut(good.begin(), good.end() - 12);
  expect_refused(cut, "cut short");
  Bytes no_checksum(good.begin(), good.end() - 4);
  expect_refused(no_checksum, "cut short");
  Bytes wrong_checksum = good;
  wrong_checksum[good.size() - 6] ^= 1;
  expect_refused(wrong_checksum, "damaged");
  Bytes followed = good;
  followed.push_back('x');
  expect_refused(followed, "extra bytes after the end");
  expect_refused({0x1f, 0x8b}, "cut short");
}

TEST(Gzip, JoinsMembersAndIgnoresPadding) {
  Bytes joined = gzipped({1, 2, 3});
  Bytes second = gzipped({4, 5});
  joined.insert(joined.end(), second.begin(), second.end());
  joined.insert(joined.end(), 512, 0);
  TempFolder dir;
  write_bytes(dir.path() / "a.gz", joined);
  auto content = read_gzip_file((dir.path() / "a.gz").string(), 5);
  ASSERT_EQ(content.size(), 5u);
  EXPECT_EQ(content[4], std::byte{5});
  expect_error<DataError>([&] { read_gzip_file((dir.path() / "a.gz").string(), 4); },
                          {"a.gz", "more than the 4 bytes"});
}

TEST(Gzip, LimitsDecompressedSize) {
  TempFolder dir;
  std::string path = (dir.path() / "bomb.gz").string();
  write_bytes(path, gzipped(Bytes(32 << 20, 7)));
  expect_error<DataError>([&] { read_gzip_file(path, 100'000); }, {"bomb.gz", "0.0954 MiB"});
  EXPECT_EQ(read_gzip_file(path, 32 << 20).size(), 32u << 20);
  expect_error<DataError>([&] { read_gzip_file((dir.path() / "none").string(), 1); }, {"none"});
  write_bytes(dir.path() / "plain", {1, 2, 3});
  expect_error<DataError>([&] { read_gzip_file((dir.path() / "plain").string(), 9); },
                          {"not a gzip file"});
}

class IdxDatasetTest : public testing::Test {
 protected:
  IdxDatasetTest() {
    data.dataset = "idx";
    data.root = dir.string();
    model.num_classes = 10;
    model.channels = 1;
  }
  void write(const std::string& prefix, const Bytes& images, const Bytes& labels) {
    write_bytes(dir.path() / (prefix + "-images-idx3-ubyte"), images);
    write_bytes(dir.path() / (prefix + "-labels-idx1-ubyte"), labels);
  }
  std::unique_ptr<Dataset> open(Split split = Split::kTrain) {
    return open_dataset(data, model, split, 0);
  }
  TempFolder dir;
  DataConfig data;
  ModelConfig model;
};

TEST_F(IdxDatasetTest, LoadsImagesAndLabels) {
  Bytes pixels = noise(3 * 4 * 5, 2);
  write("train", idx_file({3, 4, 5}, pixels), idx_file({3}, {0, 9, 4}));
  auto set = open();
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->label(1), 9);
  EXPECT_EQ(set->num_classes(), 10);
  EXPECT_TRUE(set->class_names().empty());
  SampleWorkspace workspace;
  for (std::int64_t i : {2, 0, 1}) {
    Sample sample = set->load(i, workspace);
    ASSERT_NE(sample.image, nullptr);
    EXPECT_EQ(sample.image->width, 5);
    EXPECT_EQ(sample.image->height, 4);
    EXPECT_EQ(sample.image->channels, 1);
    EXPECT_EQ(sample.image->pixels, Bytes(pixels.begin() + 20 * i, pixels.begin() + 20 * i + 20));
  }
}

TEST_F(IdxDatasetTest, OpensOnlyItsSplitByPrefixAndGzipped) {
  Bytes images = gzipped(idx_file({1, 2, 2}, {1, 2, 3, 4}));
  write_bytes(dir.path() / "t10k-images-idx3-ubyte.gz", images);
  write_bytes(dir.path() / "t10k-labels-idx1-ubyte.gz", gzipped(idx_file({1}, {3})));
  EXPECT_EQ(open(Split::kVal)->label(0), 3);  // there is no train split
  expect_error<DataError>([&] { open(Split::kTrain); },
                          {"train-images-idx3-ubyte", ".gz", "data.root"});
  data.train = "t10k";
  EXPECT_EQ(open(Split::kTrain)->size(), 1);
  data.val = "other";
  expect_error<DataError>([&] { open(Split::kVal); }, {"other-images-idx3-ubyte"});
}

TEST_F(IdxDatasetTest, ErrorsNameMismatch) {
  Bytes four = {1, 2, 3, 4};
  write("train", idx_file({1, 2, 2}, four), idx_file({2}, {0, 1}));
  expect_error<DataError>([&] { open(); }, {"holds 1 images", "2 labels"});
  write("train", idx_file({4}, four), idx_file({1}, {0}));
  expect_error<DataError>([&] { open(); }, {"images-idx3", "expected 3"});
  write("train", idx_file({1, 2, 2}, four), idx_file({1, 1}, {0}));
  expect_error<DataError>([&] { open(); }, {"labels-idx1", "expected 1"});
  write("train", idx_file({1, 1, 70000}, Bytes(70000, 0)), idx_file({1}, {0}));
  expect_error<DataError>([&] { open(); }, {"images-idx3", "70000 x 1"});
}

TEST_F(IdxDatasetTest, RejectsLabelsOutOfRange) {
  write("train", idx_file({2, 1, 1}, {1, 2}), idx_file({2}, {0, 10}));
  expect_error<DataError>([&] { open(); },
                          {"train-labels-idx1-ubyte", "label 10", "index 1", "num_classes"});
  model.num_classes = 11;
  EXPECT_EQ(open()->num_classes(), 11);
}

// The Debian package dataset-fashion-mnist.
TEST_F(IdxDatasetTest, ReadsFashionMnist) {
  data.root = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(data.root)) GTEST_SKIP() << data.root << " is not there";
  auto set = open(Split::kVal);
  ASSERT_EQ(set->size(), 10'000);
  for (Split split : {Split::kTrain, Split::kVal}) {
    const std::vector<std::string> names = open(split)->class_names();
    ASSERT_EQ(names.size(), 10u);
    EXPECT_EQ(names[0], "T-shirt/top");
    EXPECT_EQ(names[9], "ankle boot");
  }
  std::vector<int> count(10);
  double sum = 0;
  SampleWorkspace workspace;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    ++count[static_cast<std::size_t>(set->label(i))];
    for (std::uint8_t p : set->load(i, workspace).image->pixels) sum += p;
  }
  EXPECT_EQ(count, std::vector<int>(10, 1000));
  EXPECT_EQ(workspace.image.pixels.size(), 28u * 28u);
  EXPECT_NEAR(sum / (10'000 * 28 * 28 * 255.0), 0.2868, 1e-3);
}

TEST_F(IdxDatasetTest, RejectsUnknownDatasets) {
  data.dataset = "mnist";
  expect_error<ConfigError>([&] { open(); }, {"'mnist'", "idx"});
}

}  // namespace
}  // namespace dtn
