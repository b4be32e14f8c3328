// Corrupted images as files and as a data set. tests/e2e/corrupt.sh runs the programs.
#include "data/corrupt/corrupt_folders.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <algorithm>

#include "dtn/data/datasets.h"
#include "io/file.h"
#include "io/posix.h"
#include "unit/data/data_fixtures.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;

// Images without files, with any names.
class NamedImages final : public Dataset {
 public:
  explicit NamedImages(std::vector<std::string> names, int channels = 3)
      : names_(std::move(names)),
        image_{40, 30, channels, noise(static_cast<std::size_t>(1200 * channels), 9)} {
    labels_.assign(names_.size(), 1);
    class_names_ = {"cat", "dog"};
    num_classes_ = 2;
  }
  Sample load(std::int64_t, SampleWorkspace&) const override {
    return {.encoded = {}, .image = &image_, .ready = {}};
  }
  std::string sample_name(std::int64_t i) const override { return "sample " + std::to_string(i); }
  std::string item_name(std::int64_t i) const override {
    return names_[static_cast<std::size_t>(i)];
  }

 private:
  std::vector<std::string> names_;
  Image image_;
};

class CorruptFiles : public ::testing::Test {
 protected:
  CorruptFiles() {
    for (const char* name : {"a/1.bmp", "a/2.bmp", "b/3.bmp"}) {
      write_bytes(dir_.path() / "val" / name, bmp_file(60, 40, noise(7200, ++seed_)));
    }
  }
  std::unique_ptr<Dataset> open() const {
    return open_class_folders((dir_.path() / "val").string(), {"a", "b"});
  }
  CorruptOptions options(const std::string& names = "fog,contrast",
                         const std::string& severities = "2,5") const {
    CorruptOptions options;
    options.output = (dir_.path() / "out").string();
    options.cells = cells_of(parse_corruptions(names), parse_severities(severities));
    return options;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path() / "out")) {
      if (entry.is_regular_file())
        found.push_back(entry.path().lexically_relative(dir_.path() / "out"));
    }
    std::ranges::sort(found);
    return found;
  }
  std::vector<std::byte> read(const std::string& name) const {
    return read_file((dir_.path() / "out" / name).string());
  }

  TempFolder dir_;
  std::uint32_t seed_ = 0;
};

TEST(CorruptNames, Files) {
  const auto jpeg = [](const char* item) {
    return corrupted_file_name(item, CorruptFormat::kJpeg);
  };
  const auto png = [](const char* item) { return corrupted_file_name(item, CorruptFormat::kPng); };
  EXPECT_EQ(jpeg("n01/a.JPEG"), "n01/a.JPEG");
  EXPECT_EQ(jpeg("n01/a.jpg"), "n01/a.jpg");
  EXPECT_EQ(jpeg("n01/a.Jpg"), "n01/a.Jpg");
  EXPECT_EQ(jpeg("n01/a.png"), "n01/a.JPEG");
  EXPECT_EQ(jpeg("n01/a"), "n01/a.JPEG");
  EXPECT_EQ(jpeg("n.01/a"), "n.01/a.JPEG");
  EXPECT_EQ(jpeg("n01/a.b.webp"), "n01/a.b.JPEG");
  EXPECT_EQ(png("n01/a.JPEG"), "n01/a.png");
  EXPECT_EQ(png("n01/x/00017"), "n01/x/00017.png");
}

TEST(CorruptNames, Items) {
  EXPECT_EQ(corruption_item(NamedImages({"17"}), 0), "dog/17");
  EXPECT_EQ(corruption_item(NamedImages({"n02/x/y.png"}), 0), "n02/x/y.png");
  for (const char* bad : {"../x.png", "/etc/x.png", "a//x.png", "a/../../x.png", "a/", "a/."}) {
    expect_error<DataError>([&] { corruption_item(NamedImages({bad}), 0); },
                            {bad, "cannot be a file name"});
  }
  const NamedImages twice({"a/x.png", "a/y.png", "a/x.bmp"});
  expect_error<DataError>([&] { CorruptFolders(twice, {}); }, {"a/x.png", "a/x.bmp", "a/x.JPEG"});
}

TEST(CorruptNames, CropShapes) {
  CorruptWorkspace ws;
  const NamedImages images({"1"}), gray({"1"}, 1);
  const Image& crop = load_for_corruption(images, 0, CorruptSource::kCrop, ws);
  EXPECT_EQ(crop.width, 224);
  EXPECT_EQ(crop.height, 224);
  EXPECT_EQ(load_for_corruption(images, 0, CorruptSource::kAsItIs, ws).width, 40);
  const Image& replicated = load_for_corruption(gray, 0, CorruptSource::kAsItIs, ws);
  EXPECT_EQ(replicated.channels, 3);
  EXPECT_EQ(replicated.pixels[30], replicated.pixels[32]);
}

TEST_F(CorruptFiles, WritesAndResumes) {
  const auto dataset = open();
  const CorruptFolders folders(*dataset, options());
  const CorruptPlan plan = folders.plan(2);
  EXPECT_EQ(plan.files, 12);
  EXPECT_EQ(plan.there, 0);
  EXPECT_GT(plan.bytes, 12 * 500);
  EXPECT_GT(plan.seconds, 0);
  EXPECT_FALSE(fs::exists(dir_.path() / "out"));
  const CorruptReport report = folders.run();
  EXPECT_EQ(report.made, 12);
  EXPECT_EQ(report.images, 3);
  EXPECT_FALSE(report.stopped);
  ASSERT_EQ(files().size(), 13u);
  EXPECT_EQ(files()[0], "contrast/2/a/1.JPEG");
  EXPECT_EQ(files().back(), "fog/5/b/3.JPEG");
  const std::vector<std::byte> whole = read("fog/2/a/2.JPEG"), kept = read("fog/5/a/2.JPEG");
  const ImageInfo info = read_image_info(whole, "a file");
  EXPECT_EQ(info.width, 224);
  EXPECT_EQ(info.height, 224);

  // Lost, emptied by a power failure, half-written. Existing files are not read.
  fs::remove(dir_.path() / "out/fog/2/a/2.JPEG");
  write_bytes(dir_.path() / "out/fog/5/a/2.JPEG", {});
  write_bytes(dir_.path() / "out/contrast/2/a/1.JPEG", {1});
  write_bytes(dir_.path() / "out/fog/2/b/3.JPEG.tmp-1-0", {1, 2});
  EXPECT_EQ(folders.plan(0).there, 10);
  const CorruptReport again = CorruptFolders(*dataset, options()).run();
  EXPECT_EQ(again.made, 2);
  EXPECT_EQ(again.there, 10);
  EXPECT_EQ(read("fog/2/a/2.JPEG"), whole);
  EXPECT_EQ(read("fog/5/a/2.JPEG"), kept);
  EXPECT_EQ(read("contrast/2/a/1.JPEG").size(), 1u);
  EXPECT_EQ(files().size(), 13u);
}

TEST_F(CorruptFiles, DependOnImageSeedAndCorruptionOnly) {
  const auto dataset = open();
  CorruptFolders(*dataset, options("fog,glass_blur")).run();
  const std::vector<std::byte> first = read("glass_blur/5/b/3.JPEG");
  fs::remove_all(dir_.path() / "out");
  fs::remove(dir_.path() / "val/a/1.bmp");  // other images, corruptions, severities and jobs
  CorruptOptions other = options("glass_blur", "5");
  other.jobs = 3;
  const auto fewer = open();
  CorruptFolders(*fewer, other).run();
  EXPECT_EQ(read("glass_blur/5/b/3.JPEG"), first);
  other.seed = 1;
  other.output += "2";
  CorruptFolders(*fewer, other).run();
  EXPECT_NE(read("../out2/glass_blur/5/b/3.JPEG"), first);
}

TEST_F(CorruptFiles, OnTheFlyDatasetHasSameBytes) {
  const std::shared_ptr<const Dataset> clean = open();
  CorruptOptions how = options("spatter", "3");
  CorruptFolders(*clean, how).run();
  const auto flying = corrupted_dataset(clean, {.cell = how.cells[0],
                                                .seed = 0,
                                                .source = CorruptSource::kCrop,
                                                .format = CorruptFormat::kJpeg,
                                                .frost = nullptr});
  ASSERT_EQ(flying->size(), 3);
  EXPECT_EQ(flying->label(2), 1);
  EXPECT_EQ(flying->item_name(2), "b/3.bmp");
  SampleWorkspace ws;
  for (int i = 0; i < 3; ++i) {
    const Sample sample = flying->load(i, ws);
    const std::string file =
        "spatter/3/" + corrupted_file_name(clean->item_name(i), CorruptFormat::kJpeg);
    EXPECT_TRUE(std::ranges::equal(sample.encoded, read(file))) << file;
  }
  how.format = CorruptFormat::kPng;
  how.output += "2";
  CorruptFolders(*clean, how).run();
  const auto pixels = corrupted_dataset(clean, {.cell = how.cells[0],
                                                .seed = 0,
                                                .source = CorruptSource::kCrop,
                                                .format = CorruptFormat::kPng,
                                                .frost = nullptr});
  const Sample sample = pixels->load(1, ws);
  ASSERT_NE(sample.image, nullptr);
  EXPECT_EQ(sample.image->pixels, decode_image(read("../out2/spatter/3/a/2.png"), "png").pixels);
}

TEST_F(CorruptFiles, SkipsUnreadableImages) {
  write_bytes(dir_.path() / "val/a/2.bmp", {'B', 'M', 0});
  const auto dataset = open();
  const CorruptFolders folders(*dataset, options());
  EXPECT_EQ(folders.plan(3).files, 12);
  std::vector<std::string> told;
  const CorruptReport report =
      folders.run({}, [&](const BadSample& bad) { told.push_back(bad.name); });
  EXPECT_EQ(report.made, 8);
  ASSERT_EQ(report.unreadable.size(), 1u);
  EXPECT_EQ(report.unreadable[0].index, 1);
  EXPECT_EQ(told.size(), 1u);
  EXPECT_NE(report.unreadable[0].reason.find("a/2.bmp"), std::string::npos);
  EXPECT_EQ(files().size(), 9u);
}

TEST_F(CorruptFiles, StopsOnRequest) {
  const auto dataset = open();
  const CorruptReport report =
      CorruptFolders(*dataset, options()).run([](std::int64_t) { return false; });
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.made, 4);
  const CorruptReport rest = CorruptFolders(*dataset, options()).run();
  EXPECT_EQ(rest.there + rest.made, 12);  // the other images may have been in progress
  EXPECT_GE(rest.there, 4);
  EXPECT_EQ(files().size(), 13u);
}

TEST_F(CorruptFiles, RejectsOutputOfOtherOptions) {
  const auto dataset = open();
  CorruptFolders(*dataset, options("fog", "1")).run();
  CorruptOptions other = options("contrast", "1");
  other.seed = 4;
  expect_error<ConfigError>([&] { CorruptFolders(*dataset, other).run(); }, {"--seed 0, not 4"});
  other.seed = 0;
  other.format = CorruptFormat::kPng;
  expect_error<ConfigError>([&] { CorruptFolders(*dataset, other).run(); },
                            {"--format jpeg, not png"});
  other = options("frost", "1");
  other.frost = FrostTextures::stand_in();
  CorruptFolders(*dataset, other).run();
  EXPECT_EQ(read_corrupt_record(other.output)->frost, "stand-in");
  // This run does not use frost, and keeps the record of it.
  CorruptFolders(*dataset, options("fog", "2")).run();
  EXPECT_EQ(read_corrupt_record(other.output)->frost, "stand-in");
  write_bytes(dir_.path() / "ice/x.bmp", bmp_file(230, 230, Bytes(230 * 230 * 3, 9)));
  other.frost = FrostTextures::from_folder((dir_.path() / "ice").string());
  expect_error<ConfigError>([&] { CorruptFolders(*dataset, other).run(); },
                            {"frost textures stand-in"});
  const FileHandle folder(::open((dir_.path() / "out/fog/1").c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(folder.get(), LOCK_EX), 0);
  expect_error<ConfigError>([&] { CorruptFolders(*dataset, options("fog", "1")).run(); },
                            {"another process"});
  for (const std::string record :
       {"x\n", "corrupted images made by dtn-data corrupt\nseed 0\nformat jpeg\nsnow stand-in\n",
        "corrupted images made by dtn-data corrupt\nseed 0\nformat jpeg\nfrost\n"}) {
    write_bytes(dir_.path() / "out/corruptions.txt", {record.begin(), record.end()});
    expect_error<DataError>([&] { CorruptFolders(*dataset, options("fog", "3")).run(); },
                            {"corruptions.txt"});
  }
}

TEST_F(CorruptFiles, RejectsOutputThatIsFile) {
  write_bytes(dir_.path() / "out", {1});
  const auto dataset = open();
  EXPECT_THROW(CorruptFolders(*dataset, options()).run(), Error);
}

}  // namespace
}  // namespace dtn
