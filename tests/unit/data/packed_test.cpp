#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <numeric>

#include "data/sample/resample.h"
#include "data/source/inspect.h"
#include "data/source/pack.h"
#include "data/source/packed_format.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"
#include "golden/data/fixtures.h"
#include "io/crc32c.h"
#include "io/image/image_encode.h"
#include "resized.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;

class PackedTest : public testing::Test {
 protected:
  PackedTest() {
    folder.dataset = "imagefolder";
    folder.root = dir.string();
    packed.dataset = "packed";
    packed.root = dir.string();
    model.num_classes = 3;
    for (int i = 0; i < 12; ++i) {
      const int width = 5 + i, height = 4 + i % 5;
      const auto size = static_cast<std::size_t>(3 * width * height);
      write_bytes(dir.path() / "train" / std::string(1, static_cast<char>('a' + i % 3)) /
                      cat("image", i, ".bmp"),
                  bmp_file(width, height, noise(size, static_cast<std::uint32_t>(i))));
    }
    output = dir.path() / "train.packed";
  }
  std::unique_ptr<Dataset> open_folder() { return open_dataset(folder, model, Split::kTrain, 0); }
  std::unique_ptr<Dataset> open_packed_file() {
    return open_dataset(packed, model, Split::kTrain, 0);
  }
  std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  void write(const fs::path& path, const std::string& text) {
    write_bytes(path, Bytes(text.begin(), text.end()));
  }
  // Packs the folder in one run and returns the content of the file.
  std::string pack(const PackOptions& options = {}) {
    fs::remove(output);
    pack_dataset(*open_folder(), output, options);
    return read(output);
  }
  // Packs until `count` images are in the file.
  PackReport pack_until(std::int64_t count, const PackOptions& options = {}) {
    return pack_dataset(*open_folder(), output, options,
                        [=](const PackProgress& now) { return now.images < count; });
  }
  fs::path beside(const char* suffix) const { return output.string() + suffix; }

  TempFolder dir;
  DataConfig folder, packed;
  ModelConfig model;
  fs::path output;
};

TEST_F(PackedTest, HoldsSameFilesAndLabels) {
  pack();
  auto files = open_folder(), records = open_packed_file();
  ASSERT_EQ(records->size(), 12);
  EXPECT_EQ(records->num_classes(), 3);
  EXPECT_EQ(records->class_names(), files->class_names());
  SampleWorkspace a, b;
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(records->label(i), files->label(i));
    EXPECT_EQ(records->item_name(i), files->item_name(i));
    EXPECT_EQ(records->sample_name(i), output.string() + ": " + files->item_name(i));
    EXPECT_TRUE(std::ranges::equal(records->load(i, a).encoded, files->load(i, b).encoded)) << i;
    EXPECT_EQ(a.name, records->sample_name(i));
  }
  EXPECT_FALSE(fs::exists(beside(".partial")));
  EXPECT_FALSE(fs::exists(beside(".partial.journal")));
  model.num_classes = 2;
  expect_error<DataError>([&] { open_packed_file(); }, {"has 3 classes"});
  packed.train = "other.packed";
  expect_error<DataError>([&] { open_packed_file(); }, {"other.packed", "dtn-data pack"});
}

TEST_F(PackedTest, DependsOnDataOnly) {
  const std::string one = pack();
  for (int jobs : {2, 5}) {
    PackOptions options;
    options.jobs = jobs;
    options.sync_bytes = 1;
    EXPECT_EQ(pack(options), one) << jobs;
  }
  // Packing a packed file gives the same file.
  const fs::path again = dir.path() / "again.packed";
  pack_dataset(*open_packed_file(), again, {});
  EXPECT_EQ(read(again), one);
}

TEST_F(PackedTest, DetectsAnyDamage) {
  const std::string good = pack();
  packed::PackedHeader header;
  std::memcpy(&header, good.data(), sizeof header);
  SampleWorkspace workspace;
  for (std::size_t at = 0; at < good.size(); at += at < sizeof header ? 1 : 37) {
    std::string changed = good;
    changed[at] ^= 0x10;
    write(output, changed);
    if (at < sizeof header || at >= header.index_at) {
      expect_error<DataError>([&] { open_packed_file(); }, {"train.packed"});
      continue;
    }
    auto set = open_packed_file();  // exactly one bad image
    std::int64_t bad = 0;
    for (std::int64_t i = 0; i < set->size(); ++i) {
      try {
        set->load(i, workspace);
      } catch (const DataError& e) {
        ++bad;
        EXPECT_NE(std::string(e.what()).find(set->item_name(i)), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find("checksum"), std::string::npos) << e.what();
      }
    }
    const bool padding = at >= header.index_at - 7;
    EXPECT_TRUE(bad == 1 || (bad == 0 && padding)) << at;
  }
  for (std::size_t size = 0; size < good.size(); size += size < 130 ? 1 : 61) {
    write(output, good.substr(0, size));
    expect_error<DataError>([&] { open_packed_file(); }, {"train.packed"});
  }
  write(output, good + "x");
  expect_error<DataError>([&] { open_packed_file(); }, {"bytes, but its header says"});
}

TEST_F(PackedTest, FileTruncatedWhileReadingIsDataError) {
  pack();
  auto set = open_packed_file();
  SampleWorkspace workspace;
  set->load(11, workspace);
  fs::resize_file(output, 0);
  expect_error<DataError>([&] { set->load(11, workspace); }, {"train.packed", "truncated"});
}

// The checksums are valid, but the contents contradict each other.
TEST_F(PackedTest, RejectsInconsistentIndexes) {
  const std::string good = pack();
  packed::PackedHeader header;
  std::memcpy(&header, good.data(), sizeof header);
  const auto refused =
      [&](const std::function<void(packed::PackedHeader&, packed::PackedEntry*)>& f,
          const char* why) {
        std::string changed = good;
        packed::PackedHeader h = header;
        std::vector<packed::PackedEntry> entries(header.num_records);
        const std::size_t bytes = entries.size() * sizeof entries[0];
        std::memcpy(entries.data(), &good[header.index_at], bytes);
        f(h, entries.data());
        std::memcpy(&changed[header.index_at], entries.data(), bytes);
        h.index_crc = crc32c(std::as_bytes(std::span(entries)));
        h.header_crc = packed::header_checksum(h);
        std::memcpy(changed.data(), &h, sizeof h);
        write(output, changed);
        expect_error<DataError>([&] { open_packed_file(); }, {"train.packed", why});
      };
  using H = packed::PackedHeader;
  using E = packed::PackedEntry;
  refused([](H&, E* e) { e[3].at += 1; }, "record 3");
  refused([](H&, E* e) { e[3].at = e[2].at; }, "record 3");
  refused([](H&, E* e) { e[3].bytes += 1; }, "record 4");
  refused([](H&, E* e) { e[11].bytes -= 20; }, "does not cover");
  refused([](H&, E* e) { e[3].bytes = ~0u; }, "record 3");
  refused([](H&, E* e) { e[3].label = 3; }, "record 3");
  refused([](H&, E* e) { e[3].name_bytes = ~0u; }, "record 3");
  refused([](H&, E* e) { e[3].name_at = 0; }, "record 3");
  refused([](H& h, E*) { h.version = 3; }, "version 3");
  refused([](H& h, E*) { h.version = 2; }, "does not match its size");
  refused([](H& h, E*) { h.index_at += 8; }, "does not match its size");
  refused([](H& h, E*) { h.index_at = ~7ull; }, "does not match its size");
  refused([](H& h, E*) { h.num_records = ~0ull / 32 + 2; }, "does not match its size");
  refused([](H& h, E*) { h.names_bytes = ~0ull; }, "does not match its size");
  refused([](H& h, E*) { h.num_classes = 4; }, "one name for each class");
  refused([](H& h, E*) { h.num_classes = ~0ull; }, "does not match its size");
}

// A table gives each image any number of ten labels, so that their bits fill more than a byte.
TEST_F(PackedTest, KeepsAnyNumberOfLabels) {
  std::string table = "path,labels\n";
  for (int i = 0; i < 12; ++i) {
    table += cat(static_cast<char>('a' + i % 3), "/image", i, ".bmp,");
    for (int k = 0; k < i % 11; ++k) table += cat(k > 0 ? ";" : "", "class", (i + k) % 10);
    table += "\n";
  }
  std::ofstream(dir.path() / "train/labels.csv") << table;
  folder.labels = "labels.csv";
  model.num_classes = 0;
  const auto from = open_multilabel(folder, model, Split::kTrain, 0);
  pack_dataset(*from, output, {});
  const auto to = open_multilabel(packed, model, Split::kTrain, 0);
  EXPECT_EQ(to->class_names(), from->class_names());
  EXPECT_FALSE(to->has_labels());
  const auto values = [](const Dataset& set) {
    const auto labels = set.ready_fields().at("labels").values<std::uint8_t>();
    return std::vector<std::uint8_t>(labels.begin(), labels.end());
  };
  ASSERT_EQ(values(*from).size(), 120u);
  EXPECT_EQ(values(*to), values(*from));
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(to->item_name(i), from->item_name(i));
  const DatasetStats stats = dataset_stats(*to, 2);
  EXPECT_EQ(std::accumulate(stats.per_class.begin(), stats.per_class.end(), 0),
            std::ranges::count(values(*from), 1));
  EXPECT_EQ(stats.without_class, 2) << "images 0 and 11";
  EXPECT_EQ(open_unlabelled(packed, model, Split::kTrain, 0)->size(), 12);
  expect_error<DataError>([&] { open_packed_file(); }, {"train.packed", "task: multilabel"});

  std::string damaged = read(output);
  damaged.back() ^= 1;
  write(output, damaged);
  expect_error<DataError>([&] { open_multilabel(packed, model, Split::kTrain, 0); },
                          {"train.packed", "damaged labels"});
  folder.labels.reset();
  pack();
  expect_error<DataError>([&] { open_multilabel(packed, model, Split::kTrain, 0); },
                          {"train.packed", "one label each", "task: classify"});
}

// Labels are part of the job: other labels do not go on with a file.
TEST_F(PackedTest, OtherLabelsAreAnotherJob) {
  const auto with_labels = [&](const std::string& labels) {
    std::ofstream(dir.path() / "train/labels.csv")
        << "a/image0.bmp," << labels << "\nb/image1.bmp,x;y\n";
    folder.labels = "labels.csv";
    model.num_classes = 0;
    return open_multilabel(folder, model, Split::kTrain, 0);
  };
  PackOptions options;
  options.sync_bytes = 1;
  pack_dataset(*with_labels("x"), output, options, [](const PackProgress&) { return false; });
  expect_error<ConfigError>([&] { pack_dataset(*with_labels("y"), output, options); },
                            {"other data"});
}

TEST_F(PackedTest, ResumesAfterStop) {
  const std::string whole = pack();
  PackOptions often;
  often.sync_bytes = 1;
  often.jobs = 3;
  for (std::int64_t first : {1, 5, 11}) {
    fs::remove(output);
    const PackReport stopped = pack_until(first, often);
    EXPECT_TRUE(stopped.stopped);
    EXPECT_EQ(stopped.images, first);
    EXPECT_FALSE(fs::exists(output));
    // A kill may leave bytes after the last sync, and a partial journal entry.
    write(beside(".partial"), read(beside(".partial")) + "half a record");
    write(beside(".partial.journal"), read(beside(".partial.journal")) + "torn");
    const PackReport done = pack_dataset(*open_folder(), output, often);
    EXPECT_EQ(done.resumed_at, first);
    EXPECT_EQ(done.images, 12);
    EXPECT_EQ(read(output), whole);
    EXPECT_FALSE(fs::exists(beside(".partial.journal")));
  }
}

TEST_F(PackedTest, ResumesFromTruncatedJournal) {
  const std::string whole = pack();
  fs::remove(output);
  pack_until(8, {});
  const std::string partial = read(beside(".partial")), journal = read(beside(".partial.journal"));
  for (std::size_t size = 0; size <= journal.size(); size += 5) {
    write(beside(".partial"), partial);
    write(beside(".partial.journal"), journal.substr(0, size));
    EXPECT_LE(pack_dataset(*open_folder(), output, {}).resumed_at, 8);
    EXPECT_EQ(read(output), whole) << size;
    fs::remove(output);
  }
  for (std::size_t size = 0; size < partial.size(); size += 301) {  // shorter than the journal says
    write(beside(".partial"), partial.substr(0, size));
    write(beside(".partial.journal"), journal);
    pack_dataset(*open_folder(), output, {});
    EXPECT_EQ(read(output), whole) << size;
    fs::remove(output);
  }
}

TEST_F(PackedTest, RejectsOtherJobsAndExistingOutput) {
  pack_until(5);
  PackOptions other;
  other.short_side = 4;
  expect_error<ConfigError>([&] { pack_dataset(*open_folder(), output, other); },
                            {"train.packed.partial", "other options"});
  write_bytes(dir.path() / "train/a/another.bmp", bmp_file(1, 1, {1, 2, 3}));
  expect_error<ConfigError>([&] { pack_dataset(*open_folder(), output, {}); }, {"other data"});
  fs::remove(dir.path() / "train/a/another.bmp");
  // Two jobs at once.
  pack_dataset(*open_folder(), output, {}, [&](const PackProgress& now) {
    if (now.images == 6) {
      expect_error<ConfigError>([&] { pack_dataset(*open_folder(), output, {}); },
                                {"another process"});
    }
    return true;
  });
  expect_error<ConfigError>([&] { pack_dataset(*open_folder(), output, {}); }, {"exists"});
}

TEST_F(PackedTest, FullDiskLosesNothing) {
  const std::string whole = pack();
  fs::remove(output);
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 1000;  // bytes per file
  ::setrlimit(RLIMIT_FSIZE, &small);
  PackOptions often;
  often.sync_bytes = 1;
  expect_error<Error>([&] { pack_dataset(*open_folder(), output, often); },
                      {"train.packed.partial", "run the same command again"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  const PackReport report = pack_dataset(*open_folder(), output, {});
  EXPECT_GT(report.resumed_at, 0);
  EXPECT_EQ(read(output), whole);
}

TEST_F(PackedTest, StopsAtUnreadableFilesButPacksDamagedImages) {
  auto set = open_folder();
  const fs::path file = set->sample_name(4);
  const std::string content = read(file);
  fs::remove(file);
  expect_error<DataError>([&] { pack_dataset(*set, output, {}); }, {file.string(), "run the same"});
  write(file, content.substr(0, 60));  // cannot be decoded
  PackOptions shrink;
  std::vector<std::string> damaged;
  const PackReport report = pack_dataset(*set, output, {});
  EXPECT_EQ(report.resumed_at, 4);
  EXPECT_EQ(report.undecodable, 0);  // nothing is decoded
  SampleWorkspace workspace;
  EXPECT_EQ(open_packed_file()->load(4, workspace).encoded.size(), 60u);
  fs::remove(output);
  shrink.short_side = 3;
  EXPECT_EQ(pack_dataset(*set, output, shrink, {},
                         [&](const std::string& what) { damaged.push_back(what); })
                .undecodable,
            1);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_NE(damaged[0].find(file.string()), std::string::npos);
  EXPECT_EQ(open_packed_file()->load(4, workspace).encoded.size(), 60u);
}

TEST_F(PackedTest, ResizesLargeImagesExactlyAndKeepsSmallOnes) {
  PackOptions options;
  options.short_side = 6;
  options.quality = 90;
  pack(options);
  auto files = open_folder(), records = open_packed_file();
  SampleWorkspace a, b;
  int resized = 0;
  for (std::int64_t i = 0; i < files->size(); ++i) {
    const Sample file = files->load(i, a), record = records->load(i, b);
    const Image image = decode_image(file.encoded, a.name);
    const int shorter = std::min(image.width, image.height);
    if (shorter <= 6) {
      EXPECT_TRUE(std::ranges::equal(file.encoded, record.encoded));
      continue;
    }
    ++resized;
    const Image small = resize(image, 6 * image.width / shorter, 6 * image.height / shorter,
                               Interpolation::kBicubic);
    std::vector<std::byte> expected;
    encode_jpeg(small, 90, expected);
    EXPECT_TRUE(std::ranges::equal(record.encoded, expected));
  }
  EXPECT_GT(resized, 2);
  EXPECT_LT(resized, 12);
}

// A packed data set is turned by data.exif as its files are.
TEST_F(PackedTest, ResizedImagesKeepTheirOrientation) {
  fs::copy_file(golden::path("images/rotated.jpg"), dir.path() / "train/a/rotated.jpg");
  PackOptions options;
  options.short_side = 12;
  pack(options);
  auto records = open_packed_file();
  SampleWorkspace workspace;
  int turned = 0;
  for (std::int64_t i = 0; i < records->size(); ++i) {
    const Sample sample = records->load(i, workspace);
    if (exif_orientation(sample.encoded) == 1) continue;
    ++turned;
    const ImageInfo info = read_image_info(sample.encoded, "record", {.upright = true});
    EXPECT_EQ(info.width, 12);
    EXPECT_EQ(info.height, 20);
  }
  EXPECT_EQ(turned, 1);
}

TEST_F(PackedTest, ImagesWithoutFilesKeepPixels) {
  write_bytes(dir.path() / "t10k-images-idx3-ubyte", idx_file({3, 4, 5}, noise(60, 2)));
  write_bytes(dir.path() / "t10k-labels-idx1-ubyte", idx_file({3}, {0, 2, 1}));
  DataConfig idx;
  idx.dataset = "idx";
  idx.root = dir.string();
  auto set = open_dataset(idx, model, Split::kVal, 0);
  pack_dataset(*set, dir.path() / "val.packed", {});
  auto records = open_dataset(packed, model, Split::kVal, 0);
  SampleWorkspace a, b;
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(records->label(i), set->label(i));
    const Image image = decode_image(records->load(i, a).encoded, "png", {}, ColorMode::kAsStored);
    EXPECT_EQ(image.pixels, set->load(i, b).image->pixels);
    EXPECT_EQ(image.channels, 1);
  }
}

TEST_F(PackedTest, VerifyNamesEveryBadImageInOrder) {
  write(dir.path() / "train/b/bad.jpg", "no image");
  write(dir.path() / "train/a/empty.png", "");
  auto set = open_folder();
  for (int jobs : {1, 4}) {
    std::int64_t looked_at = 0;
    const auto bad = verify_dataset(*set, VerifyDepth::kDecode, jobs,
                                    [&](std::int64_t done) { return looked_at = done, true; });
    EXPECT_EQ(looked_at, 14);
    ASSERT_EQ(bad.size(), 2u);
    EXPECT_NE(bad[0].name.find("a/empty.png"), std::string::npos);
    EXPECT_NE(bad[0].reason.find("empty"), std::string::npos);
    EXPECT_NE(bad[1].name.find("b/bad.jpg"), std::string::npos);
    EXPECT_EQ(set->sample_name(bad[1].index), bad[1].name);
  }
  EXPECT_TRUE(verify_dataset(*set, VerifyDepth::kRead, 2).empty());  // all files exist
  std::int64_t calls = 0;
  verify_dataset(*set, VerifyDepth::kRead, 2, [&](std::int64_t) { return ++calls < 3; });
  EXPECT_EQ(calls, 3);
}

TEST_F(PackedTest, StatsCountEveryPixel) {
  fs::remove_all(dir.path() / "train");
  write_bytes(dir.path() / "train/a/1.bmp", bmp_file(2, 1, {0, 10, 255, 100, 20, 255}));
  write_bytes(dir.path() / "train/a/2.bmp", bmp_file(1, 3, Bytes(9, 50)));
  Image gray{4, 2, 1, Bytes(8, 200)};
  std::vector<std::byte> png;
  encode_png(gray, png);
  write(dir.path() / "train/b/3.jpeg",
        std::string(reinterpret_cast<char*>(png.data()), png.size()));
  write(dir.path() / "train/b/4.jpg", "no image");
  auto set = open_folder();
  for (int jobs : {1, 3}) {
    const DatasetStats stats = dataset_stats(*set, jobs);
    EXPECT_EQ(stats.images, 3);
    EXPECT_EQ(stats.per_class, (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(stats.bad.size(), 1u);
    EXPECT_EQ(stats.gray, 1);
    EXPECT_EQ(stats.formats, (std::map<std::string, std::int64_t>{{"bmp", 2}, {"png", 1}}));
    EXPECT_EQ(stats.width.min, 1);
    EXPECT_EQ(stats.width.median, 2);
    EXPECT_EQ(stats.width.max, 4);
    EXPECT_EQ(stats.height.max, 3);
    EXPECT_EQ(stats.bytes.max, static_cast<std::int64_t>(std::max<std::size_t>(png.size(), 66)));
    // 13 pixels: the two of the first image, three of 50 and eight of 200.
    const double red = (0 + 100 + 150 + 1600) / 13.0;
    const double squares = (0 + 10000 + 7500 + 8 * 40000) / 13.0;
    EXPECT_NEAR(stats.mean[0], red / 255, 1e-12);
    EXPECT_NEAR(stats.std[0], std::sqrt(squares - red * red) / 255, 1e-12);
    EXPECT_NEAR(stats.mean[2], (255 + 255 + 150 + 1600) / 13.0 / 255, 1e-12);
  }
}

}  // namespace
}  // namespace dtn
