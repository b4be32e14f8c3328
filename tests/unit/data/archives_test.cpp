#include "archives.h"

#include <algorithm>
#include <cstdlib>

#include "data/archive/archive_index.h"
#include "data/archive/ilsvrc_devkit.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;

Bytes to_bytes(const std::string& text) { return Bytes(text.begin(), text.end()); }

std::string load(const Dataset& set, std::int64_t i) {
  SampleWorkspace workspace;
  const Sample sample = set.load(i, workspace);
  EXPECT_EQ(workspace.name, set.sample_name(i));
  return std::string(reinterpret_cast<const char*>(sample.encoded.data()), sample.encoded.size());
}

class ArchivesTest : public testing::Test {
 protected:
  ArchivesTest() {
    data.root = dir.string();
    model.num_classes = 0;
    ::setenv("XDG_CACHE_HOME", (dir.path() / "cache").c_str(), 1);
  }
  ~ArchivesTest() override { ::unsetenv("XDG_CACHE_HOME"); }

  void write(const std::string& name, const std::string& content) {
    write_bytes(dir.path() / name, to_bytes(content));
  }
  std::string read(const std::string& name) { return dir.read(name); }
  std::unique_ptr<Dataset> open(const std::string& dataset, Split split = Split::kTrain) {
    data.dataset = dataset;
    return open_dataset(data, model, split, 0);
  }
  static std::vector<std::string> items(const Dataset& set) {
    std::vector<std::string> out;
    for (std::int64_t i = 0; i < set.size(); ++i) {
      out.push_back(cat(set.label(i), " ", set.item_name(i), " ", load(set, i)));
    }
    return out;
  }
  // Changes a file without changing its size and time.
  void change_secretly(const std::string& name, std::size_t at) {
    const fs::path path = dir.path() / name;
    const auto time = fs::last_write_time(path);
    std::string content = read(name);
    content[at] ^= 1;
    write(name, content);
    fs::last_write_time(path, time);
  }
  void refused(const std::string& dataset, const std::vector<std::string>& parts,
               Split split = Split::kTrain) {
    expect_error<DataError>([&] { open(dataset, split); }, parts);
  }

  TempFolder dir;
  DataConfig data;
  ModelConfig model;
};

const char* const kTrain = "ILSVRC2012_img_train.tar";
const char* const kVal = "ILSVRC2012_img_val.tar";
const std::string kIndex = std::string(kTrain) + ".dtn-index";

std::string train_tar() {
  TarFile b, a, outer;
  b.add("b_2.JPEG", "b2").add("b_10.JPEG", "b10").add(".hidden.JPEG", "").add("readme.txt", "");
  a.add("sub/x.png", "ax").add("a_1.jpg", "a-old").add("a_1.jpg", "a1").add("y.tif", "");
  a.add("link.jpg", "", '2').add("../../evil.jpg", "evil");
  outer.add("n02.tar", b.bytes()).add("readme.txt", "hello").add("n01.tar", a.bytes());
  return outer.bytes();
}

const std::vector<std::string> kTrainItems = {"0 n01/a_1.jpg a1", "0 n01/sub/x.png ax",
                                              "1 n02/b_10.JPEG b10", "1 n02/b_2.JPEG b2"};

TEST_F(ArchivesTest, ImagenetTrainIsOrderedByClassFolder) {
  write(kTrain, train_tar());
  testing::internal::CaptureStderr();
  auto set = open("imagenet");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("left out 2 members that are not regular files ('link.jpg' is a symbolic"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("1 .tif, 1 .txt"), std::string::npos) << log;
  EXPECT_EQ(items(*set), kTrainItems);
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"n01", "n02"}));
  EXPECT_EQ(set->num_classes(), 2);
  EXPECT_FALSE(fs::exists(dir.path().parent_path() / "evil.jpg"));
  model.num_classes = 1;
  refused("imagenet", {kTrain, "has 2 classes", "model.num_classes is 1"});
}

TEST_F(ArchivesTest, ImagenetErrorsNameMissingParts) {
  refused("imagenet", {kTrain, "image-net.org", "data/README.md"});
  refused("imagenet", {kVal, "data.val"}, Split::kVal);
  write(kVal, TarFile().add("ILSVRC2012_val_00000001.JPEG", "1").bytes());
  refused("imagenet", {"ILSVRC2012_devkit_t12.tar.gz", "development kit"}, Split::kVal);
  write(kTrain, TarFile().add("a.JPEG", "1").bytes());
  refused("imagenet", {kTrain, "no class archive"});
  const std::string empty = TarFile().add("a.txt", "1").bytes();
  write(kTrain, TarFile().add("n01.tar", empty).bytes());
  refused("imagenet", {kTrain, "n01.tar holds no images"});
  const std::string one = TarFile().add("a.jpg", "1").bytes();
  write(kTrain, TarFile().add("n01.tar", one).add("x/n01.tar", one).bytes());
  refused("imagenet", {"n01.tar twice"});
  write(kTrain, TarFile().add("n01.tar", one.substr(0, 700)).bytes());
  refused("imagenet", {kTrain, "byte 1212", "end mark"});
  const Bytes gz = gzipped(to_bytes(train_tar()));
  write_bytes(dir.path() / kTrain, gz);
  refused("imagenet", {kTrain, "compressed"});
}

TEST_F(ArchivesTest, IndexIsBuiltOncePerArchive) {
  write(kTrain, train_tar());
  open("imagenet");
  ASSERT_TRUE(fs::exists(dir.path() / kIndex));
  // The archive has a broken header, so only the index knows where the images are.
  change_secretly(kTrain, 3);
  EXPECT_EQ(items(*open("imagenet")), kTrainItems);
  fs::last_write_time(dir.path() / kTrain,
                      fs::last_write_time(dir.path() / kTrain) + std::chrono::nanoseconds(1000));
  refused("imagenet", {kTrain, "checksum"});
  write(kTrain, train_tar() + std::string(512, '\0'));
  EXPECT_EQ(items(*open("imagenet")), kTrainItems);
}

TEST_F(ArchivesTest, RebuildsDamagedIndex) {
  write(kTrain, train_tar());
  open("imagenet");
  const std::string good = read(kIndex);
  for (std::size_t n = 0; n < good.size(); n += 29) {
    write(kIndex, good.substr(0, n));
    EXPECT_EQ(open("imagenet")->size(), 4) << n;
    EXPECT_EQ(read(kIndex), good) << n;
    std::string changed = good;
    changed[n] ^= 0x40;
    write(kIndex, changed);
    EXPECT_EQ(open("imagenet")->size(), 4) << n;
    EXPECT_EQ(read(kIndex), good) << n;
  }
  // A valid index of another archive is rejected too.
  write("x.tar", TarFile().add("a.jpg", "1").add("a.cls", "0").bytes());
  data.train = "x.tar";
  open("webdataset");
  write(kIndex, read("x.tar.dtn-index"));
  data.train.reset();
  EXPECT_EQ(open("imagenet")->size(), 4);
  EXPECT_EQ(read(kIndex), good);
}

TEST_F(ArchivesTest, WritesIndexToCacheIfFolderIsReadOnly) {
  write(kTrain, train_tar());
  fs::create_directories(dir.path() / kIndex / "in the way");
  open("imagenet");
  std::vector<fs::path> kept;
  for (const auto& entry : fs::directory_iterator(dir.path() / "cache/dtn")) {
    kept.push_back(entry.path());
  }
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_TRUE(kept[0].string().ends_with("-" + kIndex)) << kept[0];
  change_secretly(kTrain, 3);
  EXPECT_EQ(items(*open("imagenet")), kTrainItems);
  // The index cannot be stored anywhere, but the data set works.
  write(kTrain, train_tar());
  fs::remove_all(dir.path() / "cache");
  write("cache", "a file");
  EXPECT_EQ(items(*open("imagenet")), kTrainItems);
}

TEST_F(ArchivesTest, RejectsIndexEntriesOutsideArchive) {
  ArchiveIndex index;
  index.add({.offset = 512, .size = 100, .label = 3}, "a/b.jpg");
  const std::vector<std::int64_t> sizes = {1024};
  const auto parse = [&] {
    const std::string text = write_archive_index(index, "kind", "id");
    return parse_archive_index(std::as_bytes(std::span(text.data(), text.size())), "the.index",
                               "kind", "id", sizes);
  };
  EXPECT_EQ(parse().name(parse().images[0]), "a/b.jpg");
  const ArchiveIndex::Image good = index.images[0];
  for (auto change : std::vector<std::function<void(ArchiveIndex::Image&)>>{
           [](auto& i) { i.offset = 925; }, [](auto& i) { i.size = ~0ull; },
           [](auto& i) { i.offset = ~0ull; }, [](auto& i) { i.archive = 1; },
           [](auto& i) { i.name_at = 1; }, [](auto& i) { i.name_at = ~0ull; },
           [](auto& i) { i.name_size = 8; }}) {
    index.images[0] = good;
    change(index.images[0]);
    expect_error<DataError>(parse, {"the.index"});
  }
}

// The first three classes by name have the numbers 449, 450 and 442 in the development kit.
const char* const kTruth = "442\n449\n450\n449\n";
const std::vector<std::string> kValItems = {
    "0 n01440764/ILSVRC2012_val_00000002.JPEG v2", "0 n01440764/ILSVRC2012_val_00000004.JPEG v4",
    "1 n01443537/ILSVRC2012_val_00000003.JPEG v3", "2 n01484850/ILSVRC2012_val_00000001.JPEG v1"};

std::string val_tar(int count = 4) {
  TarFile tar;
  for (int i = count; i > 0; --i) tar.add(cat("ILSVRC2012_val_0000000", i, ".JPEG"), cat("v", i));
  return tar.bytes();
}

TEST_F(ArchivesTest, RejectsIndexWithLabelsOutsideClasses) {
  ArchiveIndex good;
  good.add({.offset = 512, .size = 100, .label = 1}, "b.jpg");
  good.classes = {"x", "y"};
  const auto parsed = [](const ArchiveIndex& index) {
    const std::string text = write_archive_index(index, "kind", "id");
    return parse_archive_index(std::as_bytes(std::span(text.data(), text.size())), "the.index",
                               "kind", "id", std::vector<std::int64_t>{1024});
  };
  EXPECT_EQ(parsed(good).classes, good.classes);
  ArchiveIndex lists = good;
  lists.lists = {{}, {0, 1}};
  EXPECT_EQ(parsed(lists).lists, lists.lists);
  for (auto change : std::vector<std::function<void(ArchiveIndex&)>>{
           [](auto& i) { i.images[0].label = 2; }, [](auto& i) { i.images[0].label = -1; },
           [](auto& i) { i.lists = {{0}}; },
           [](auto& i) {
             i.lists = {{0}, {2}};
           },
           [](auto& i) {
             i.lists = {{0}, {-1}};
           }}) {
    ArchiveIndex bad = good;
    change(bad);
    expect_error<DataError>([&] { parsed(bad); }, {"the.index", "not among the classes"});
  }
}

TEST_F(ArchivesTest, ImagenetValReadsClassesFromDevelopmentKit) {
  write(kVal, val_tar());
  const std::string folder = "ILSVRC2012_devkit_t12/";
  TarFile kit;
  kit.add(folder + "readme.txt", "").add(folder + "data/meta.mat", "not read");
  write_bytes(dir.path() / "ILSVRC2012_devkit_t12.tar.gz", gzipped(to_bytes(kit.bytes())));
  refused("imagenet", {"has no data/ILSVRC2012_validation_ground_truth.txt"}, Split::kVal);
  kit.add(folder + "data/ILSVRC2012_validation_ground_truth.txt", kTruth);
  write_bytes(dir.path() / "ILSVRC2012_devkit_t12.tar.gz", gzipped(to_bytes(kit.bytes())));
  auto set = open("imagenet", Split::kVal);
  EXPECT_EQ(items(*set), kValItems);
  EXPECT_EQ(set->class_names(), imagenet_class_names());
  fs::remove(dir.path() / "ILSVRC2012_devkit_t12.tar.gz");
  write(folder + "readme.txt", "");
  refused("imagenet", {"ILSVRC2012_validation_ground_truth.txt"}, Split::kVal);
  write(folder + "data/ILSVRC2012_validation_ground_truth.txt", kTruth);
  EXPECT_EQ(items(*open("imagenet", Split::kVal)), kValItems);

  write(kVal, val_tar(3));
  refused("imagenet", {kVal, "holds 3 images", "the classes of 4"}, Split::kVal);
  write(kVal,
        TarFile().add("a.JPEG", "").add("b.JPEG", "").add("c.JPEG", "").add("d.JPEG", "").bytes());
  refused("imagenet", {kVal, "'a.JPEG' is not a validation image"}, Split::kVal);
}

std::vector<std::int32_t> parse_labels(const std::string& truth) {
  return parse_ilsvrc_labels(std::as_bytes(std::span(truth.data(), truth.size())), "truth.txt");
}

TEST(Devkit, MapsDevkitIdsToLabels) {
  EXPECT_EQ(parse_labels("449\r\n450\r\n"), (std::vector<std::int32_t>{0, 1}));
  // The first images, whose labels others have published.
  EXPECT_EQ(parse_labels("490\n361\n171\n822\n297"),
            (std::vector<std::int32_t>{65, 970, 230, 809, 516}));
  std::string every;
  for (int id = 1; id <= 1000; ++id) every += cat(id, "\n");
  std::vector<std::int32_t> labels = parse_labels(every);
  std::ranges::sort(labels);
  for (std::int32_t i = 0; i < 1000; ++i) ASSERT_EQ(labels[static_cast<std::size_t>(i)], i);
}

TEST(Devkit, RejectsInvalidClassNumbers) {
  for (const char* truth : {"3\n1001\n", "3\n0\n", "3\n-1\n", "3\nx\n", "3\n\n1\n", "3\n4 5\n"}) {
    expect_error<DataError>([&] { parse_labels(truth); },
                            {"truth.txt", "line 2 is not a class number"});
  }
}

class WebDatasetTest : public ArchivesTest {
 protected:
  // Two shards. Keys are not sorted, and labels are not in the order of the shards.
  void write_shards() {
    TarFile first, second;
    first.add("z.jpg", "z").add("z.cls", "1").add("z.json", "{}");
    first.add("b.cls", " 0\n").add("b.seg.png", "no").add("b.JPEG", "b");
    second.add("dir/a.v2.txt", "").add("dir/a.cls", "1").add("dir/a.png", "a");
    second.add("only.cls", "0").add("only.tif", "").add("._b.jpg", "").add("plain", "");
    write("in-train-000009.tar", first.bytes());
    write("in-train-000010.tar", second.bytes());
    write("in-val-000000.tar", TarFile().add("v.jpg", "v").add("v.cls", "0").bytes());
  }
  const std::vector<std::string> expected = {"0 b.JPEG b", "1 z.jpg z", "1 dir/a.png a"};
};

TEST_F(WebDatasetTest, SamplesAreSortedByLabelThenName) {
  write_shards();
  auto set = open("webdataset");
  EXPECT_EQ(items(*set), expected);
  EXPECT_EQ(set->num_classes(), 2);
  EXPECT_TRUE(set->class_names().empty());
  EXPECT_NE(set->sample_name(0).find("in-train-000009.tar: b.JPEG"), std::string::npos);
  EXPECT_EQ(items(*open("webdataset", Split::kVal)), (std::vector<std::string>{"0 v.jpg v"}));
  for (const char* name : {"in-train-{000009..000010}.tar", "in-train-{000010,000009}.tar",
                           "in-train-*.tar", "in-train-0000{09,1?}.tar"}) {
    data.train = name;
    EXPECT_EQ(items(*open("webdataset")), expected) << name;
  }
  fs::create_directories(dir.path() / "shards");
  for (const char* name : {"in-train-000009.tar", "in-train-000010.tar"}) {
    fs::rename(dir.path() / name, dir.path() / "shards" / name);
  }
  data.train = "shards";
  EXPECT_EQ(items(*open("webdataset")), expected);
  EXPECT_TRUE(fs::exists(dir.path() / "shards/in-train-000009.tar+1.dtn-index"));
  change_secretly("shards/in-train-000010.tar", 3);
  EXPECT_EQ(items(*open("webdataset")), expected);
  model.num_classes = 1;
  refused("webdataset", {"has 2 classes"});
}

// A .cls decides if there is one: then the .json may hold anything.
TEST_F(WebDatasetTest, ReadsLabelOfJson) {
  TarFile tar;
  tar.add("a.jpg", "a").add("a.json", R"({"width": 3, "label": 2, "label_name": "cat"})");
  tar.add("b.json", R"({"label": " 0"})").add("b.cls", "1").add("b.jpg", "b");
  tar.add("c.json", R"({"label": "0"})").add("c.jpg", "c");
  write("in-train-000009.tar", tar.bytes());
  EXPECT_EQ(items(*open("webdataset")),
            (std::vector<std::string>{"0 c.jpg c", "1 b.jpg b", "2 a.jpg a"}));
}

// Adds a sample with this JSON to a shard.
TarFile& add_sample(TarFile& tar, const std::string& key, const std::string& json) {
  return tar.add(key + ".jpg", key).add(key + ".json", json);
}

TEST_F(WebDatasetTest, NamesOfClassesAreSortedByBytes) {
  TarFile first, second;
  add_sample(first, "a", R"({"label": "dog"})");
  add_sample(first, "b", R"({"label": "Zebra"})");
  add_sample(second, "c", R"({"label": ["cat"]})");
  add_sample(second, "d", R"({"labels": "dog"})");
  add_sample(second, "e", R"({"label": "10"})");
  write("in-train-000009.tar", first.bytes());
  write("in-train-000010.tar", second.bytes());
  for (int again = 0; again < 2; ++again) {  // the second time from the index
    const auto set = open("webdataset");
    EXPECT_EQ(set->class_names(), (std::vector<std::string>{"10", "Zebra", "cat", "dog"}));
    EXPECT_EQ(items(*set), (std::vector<std::string>{"0 e.jpg e", "1 b.jpg b", "2 c.jpg c",
                                                     "3 a.jpg a", "3 d.jpg d"}));
  }
  write("classes.txt", "cat\ndog\nfish\nZebra\n10\n");
  data.class_names = "classes.txt";
  EXPECT_EQ(items(*open("webdataset")).front(), "4 e.jpg e");
}

// Texts of digits are numbers, unless others are names.
TEST_F(WebDatasetTest, NumbersAndNamesDoNotMix) {
  TarFile tar;
  add_sample(tar, "a", R"({"label": "2"})");
  add_sample(tar, "b", R"({"label": 0})");
  write("in-train-0.tar", tar.bytes());
  EXPECT_EQ(items(*open("webdataset")), (std::vector<std::string>{"0 b.jpg b", "2 a.jpg a"}));
  add_sample(tar, "c", R"({"label": "cat"})");
  write("in-train-0.tar", tar.bytes());
  refused("webdataset", {"in-train-0.tar: the sample 'b' has the label 0, a number",
                         "in-train-0.tar: the sample 'c' has the name 'cat'"});
}

TEST_F(WebDatasetTest, ReadsListsOfLabels) {
  TarFile first, second;
  add_sample(first, "z", R"({"labels": ["dog", "cat", "dog"]})");
  add_sample(first, "y", R"({"labels": []})");
  add_sample(second, "a", R"({"label": "cat"})");
  write("in-train-000009.tar", first.bytes());
  write("in-train-000010.tar", second.bytes());
  data.dataset = "webdataset";
  for (int again = 0; again < 2; ++again) {  // the second time from the index
    const auto set = open_multilabel(data, model, Split::kTrain, 0);
    EXPECT_EQ(items(*set), (std::vector<std::string>{"0 a.jpg a", "0 y.jpg y", "0 z.jpg z"}));
    EXPECT_EQ(set->class_names(), (std::vector<std::string>{"cat", "dog"}));
    EXPECT_FALSE(set->has_labels());
    const Tensor& labels = set->ready_fields().at("labels");
    EXPECT_EQ(labels.shape(), (Shape{3, 2}));
    EXPECT_EQ(std::vector<std::uint8_t>(labels.values<std::uint8_t>().begin(),
                                        labels.values<std::uint8_t>().end()),
              (std::vector<std::uint8_t>{1, 0, 0, 0, 1, 1}));
    expect_contains(set->description(), "3 train images with labels of 2 classes in ");
  }
  refused("webdataset", {"in-train-000009.tar: y.jpg has no label", "task: multilabel"});
  EXPECT_EQ(open_unlabelled(data, model, Split::kTrain, 0)->size(), 3);
}

// Images with one label each can be read as images with any number.
TEST_F(WebDatasetTest, SingleNumbersBecomeLists) {
  write_shards();
  data.dataset = "webdataset";
  const auto set = open_multilabel(data, model, Split::kTrain, 0);
  EXPECT_EQ(set->num_classes(), 2);
  const Tensor& labels = set->ready_fields().at("labels");
  EXPECT_EQ(std::vector<std::uint8_t>(labels.values<std::uint8_t>().begin(),
                                      labels.values<std::uint8_t>().end()),
            (std::vector<std::uint8_t>{1, 0, 0, 1, 0, 1}));
}

TEST_F(WebDatasetTest, RefusesListsWithoutAnyLabel) {
  TarFile tar;
  add_sample(tar, "a", R"({"label": []})");
  write("in-train-0.tar", tar.bytes());
  data.dataset = "webdataset";
  expect_error<DataError>([&] { open_multilabel(data, model, Split::kTrain, 0); },
                          {"no image has a label"});
}

TEST_F(WebDatasetTest, ErrorsNameInvalidShards) {
  refused("webdataset", {"*train*.tar", "no file matches", "data.root"});
  const std::vector<std::pair<TarFile, const char*>> cases = {
      {TarFile().add("k.jpg", "1"), "'k' has no label"},
      {TarFile().add("k.jpg", "1").add("l.cls", "0").add("k.cls", "0"), "'k' has no label"},
      {TarFile().add("k.jpg", "1").add("k.png", "1").add("k.cls", "0"), "'k' has two images"},
      {TarFile().add("k.cls", "1").add("k.cls", "0").add("k.jpg", "1"), "'k' has two labels"},
      {TarFile().add("k.jpg", "1").add("k.cls", "cat"), "does not hold a label"},
      {TarFile().add("k.jpg", "1").add("k.cls", "-1"), "does not hold a label"},
      {TarFile().add("k.jpg", "1").add("k.cls", "1.0"), "does not hold a label"},
      {TarFile().add("k.jpg", "1").add("k.cls", " \n"), "does not hold a label"},
      {TarFile().add("k.jpg", "1").add("k.cls", "1000000"), "does not hold a label"},
      {TarFile().add("k.jpg", "1").add("k.cls", std::string(33, '0')), "too long"},
      {TarFile().add("k.cls", "1"), "no images with labels"},
      {TarFile().add("k.jpg", "1").add("k.json", "{}"), "no member \"label\""},
      {TarFile().add("k.jpg", "1").add("k.json", "[3]"), "no member \"label\""},
      {TarFile().add("k.jpg", "1").add("k.json", "{\"label\":"), "is not JSON"},
      {TarFile().add("k.jpg", "1").add("k.json", "{\"label\": \"\"}"), "empty"},
      {TarFile().add("k.jpg", "1").add("k.json", "{\"label\": \"a\\nb\"}"), "control characters"},
      {TarFile().add("k.jpg", "1").add("k.json", "{\"label\": [[1]]}"), "not a whole number"},
      {TarFile().add("k.jpg", "1").add("k.json", "{\"label\": [1, null]}"), "not a whole number"},
      {TarFile().add("k.jpg", "1").add("k.json", "{\"labels\": {\"a\": 1}}"), "not a whole number"},
      {TarFile().add("k.jpg", "1").add("k.json", "{\"label\": 1000000}"), "not a whole number"},
      {TarFile().add("k.jpg", "1").add("k.json", "{\"label\": 1.5}"), "not a whole number"},
      {TarFile().add("k.jpg", "1").add("k.json", "{\"label\": -1}"), "not a whole number"},
      {TarFile().add("k.jpg", "1").add("k.json", "{\"label\": 9999999999999999999}"),
       "not a whole number"},
      {TarFile().add("k.json", "{\"label\": 1}").add("k.json", "{}"), "two .json files"},
      {TarFile().add("k.jpg", "1").add("k.json", std::string((1 << 20) + 1, ' ')),
       "more than 1 MiB"},
      {TarFile().add("k.jpg", "1").add("k.json", std::string(1 << 20, '[')), "is not JSON"},
  };
  for (const auto& [tar, why] : cases) {
    write("x-train-0.tar", tar.bytes());
    refused("webdataset", {"x-train-0.tar", why});
  }
}

TEST(Shards, BracesExpandToRangesAndLists) {
  TempFolder dir;
  const auto expand = [&](const std::string& pattern) {
    std::vector<std::string> names = expand_shards(dir.string() + "/" + pattern);
    for (std::string& name : names) name = name.substr(dir.string().size() + 1);
    return names;
  };
  for (const char* name : {"a8.tar", "a9.tar", "a10.tar", "b08.tar", "b09.tar", "b10.tar"}) {
    write_bytes(dir.path() / name, {});
  }
  EXPECT_EQ(expand("a{8..10}.tar"), (std::vector<std::string>{"a8.tar", "a9.tar", "a10.tar"}));
  EXPECT_EQ(expand("b{08..10}.tar"), (std::vector<std::string>{"b08.tar", "b09.tar", "b10.tar"}));
  EXPECT_EQ(expand("{b,a}{10..10}.tar"), (std::vector<std::string>{"b10.tar", "a10.tar"}));
  EXPECT_EQ(expand("?1*.tar"), (std::vector<std::string>{"a10.tar", "b10.tar"}));
  expect_error<DataError>([&] { expand("a{8..11}.tar"); }, {"there is no", "a11.tar"});
  for (const char* bad : {"a{8..}.tar", "a{9..8}.tar", "a{x..y}.tar", "a{1", "a{0..9999999}.tar",
                          "{0..999}{0..999}{0..999}", "{..}", "{-1..2}", "none*"}) {
    expect_error<DataError>([&] { expand(bad); }, {"shards "});
  }
}

}  // namespace
}  // namespace dtn
