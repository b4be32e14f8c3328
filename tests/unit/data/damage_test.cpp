// An epoch over a folder with 1 % damaged files, of more than ten kinds.
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <gtest/gtest.h>
#include <stb/stb_image_write.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <new>
#include <set>

#include "data/feed/loader.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"
#include "samples.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;

constexpr int kImages = 1200, kSide = 8;

void append(void* to, void* data, int size) {
  const auto* from = static_cast<const std::uint8_t*>(data);
  static_cast<Bytes*>(to)->insert(static_cast<Bytes*>(to)->end(), from, from + size);
}
Bytes jpeg_file(std::uint32_t seed) {
  Bytes out;
  stbi_write_jpg_to_func(append, &out, 20, 18, 3, noise(20 * 18 * 3, seed).data(), 90);
  return out;
}
Bytes png_file(std::uint32_t seed) {
  Bytes out;
  stbi_write_png_to_func(append, &out, 17, 19, 3, noise(17 * 19 * 3, seed).data(), 0);
  return out;
}

std::ptrdiff_t find(const Bytes& bytes, const Bytes& what) {
  const auto at = std::ranges::search(bytes, what).begin() - bytes.begin();
  EXPECT_LT(static_cast<std::size_t>(at), bytes.size());
  return at;
}

// Damages the file `path`; `seed` identifies its original image.
using Damage = std::function<void(const fs::path& path, std::uint32_t seed)>;

const std::vector<std::pair<std::string, Damage>>& damages() {
  const auto jpeg_with = [](const Bytes& marker, std::ptrdiff_t offset, const Bytes& values) {
    return [=](const fs::path& path, std::uint32_t seed) {
      Bytes bytes = jpeg_file(seed);
      std::ranges::copy(values, bytes.begin() + find(bytes, marker) + offset);
      write_bytes(path, bytes);
    };
  };
  const auto with = [](const Bytes& bytes) {
    return [=](const fs::path& path, std::uint32_t) { write_bytes(path, bytes); };
  };
  const std::string html = "<html><body>404 Not Found</body></html>";
  static const std::vector<std::pair<std::string, Damage>> all = {
      {"cut.jpg",
       [](const fs::path& path, std::uint32_t seed) {
         Bytes bytes = jpeg_file(seed);
         bytes.resize(bytes.size() * 2 / 3);
         write_bytes(path, bytes);
       }},
      {"empty.jpg", with({})},
      {"zeros.jpg", with(Bytes(500, 0))},
      {"wrong_magic.jpg", jpeg_with({0xFF, 0xD8}, 0, {0x00, 0x00})},
      {"huge.jpg", jpeg_with({0xFF, 0xC0}, 5, {0xFF, 0xDC, 0xFF, 0xDC})},
      {"no_width.jpg", jpeg_with({0xFF, 0xC0}, 7, {0, 0})},
      {"bad_tables.jpg", jpeg_with({0xFF, 0xC4}, 5, Bytes(40, 0xEE))},
      {"html.jpg", with(Bytes(html.begin(), html.end()))},
      {"cut.png",
       [](const fs::path& path, std::uint32_t seed) {
         Bytes bytes = png_file(seed);
         bytes.resize(bytes.size() - 20);
         write_bytes(path, bytes);
       }},
      {"garbage.png",
       [](const fs::path& path, std::uint32_t seed) {
         Bytes bytes = png_file(seed);
         for (std::size_t i = 0; i < 9; ++i) bytes[bytes.size() / 2 + i] ^= 0x5A;
         write_bytes(path, bytes);
       }},
      {"gone.jpg", [](const fs::path& path, std::uint32_t) { fs::remove(path); }},
      {"folder.jpg",
       [](const fs::path& path, std::uint32_t) {
         fs::remove(path);
         fs::create_directory(path);
       }},
      {"pipe.jpg",
       [](const fs::path& path, std::uint32_t) {
         fs::remove(path);
         if (::mkfifo(path.c_str(), 0600) != 0) throw Error("mkfifo failed");
       }},
  };
  return all;
}

// 1200 images; 1 % of them are damaged after the folder has been listed.
class DamagedFolder : public testing::Test {
 protected:
  void SetUp() override {
    data.root = dir.string();
    model.num_classes = 4;
    std::set<fs::path> places;
    for (std::uint32_t i = 0; i < kImages; ++i)
      write_bytes(place(i, i % 2 ? ".jpg" : ".png"), i % 2 ? jpeg_file(i) : png_file(i));
    std::uint32_t i = 0;
    for (const auto& [name, damage] : damages()) {
      const fs::path path = dir.path() / "train" / cat("c", i % 4) / cat(90 * i + 7, "_", name);
      write_bytes(path, jpeg_file(i));
      bad.insert(path.string());
      ++i;
    }
    set = open_dataset(data, model, Split::kTrain, 0);
    ASSERT_EQ(set->size(), kImages + static_cast<int>(damages().size()));
    i = 0;
    for (const auto& [name, damage] : damages()) {
      damage(dir.path() / "train" / cat("c", i % 4) / cat(90 * i + 7, "_", name), i);
      ++i;
    }
    if (::geteuid() != 0) {
      const fs::path path = place(5, ".jpg");
      fs::permissions(path, fs::perms::none);
      bad.insert(path.string());
    }
  }
  fs::path place(std::uint32_t i, const char* extension) const {
    return dir.path() / "train" / cat("c", i % 4) / cat(i, extension);
  }
  Transform transform(bool training) const {
    AugmentConfig augment;
    if (training) augment.preset = AugmentPreset::kLight;
    return Transform(data, augment, kSide, 3, training);
  }

  TempFolder dir;
  DataConfig data;
  ModelConfig model;
  std::shared_ptr<const Dataset> set;
  std::set<std::string> bad;
};

struct Epoch {
  std::vector<std::int64_t> indices, labels;
  std::vector<float> pixels;
  bool operator==(const Epoch&) const = default;
};

TEST_F(DamagedFolder, EpochsCompleteAndReportDamageForAnyWorkers) {
  ASSERT_GE(damages().size(), 10u);
  for (bool training : {true, false}) {
    Epoch expected;
    for (int workers : {0, 1, 2, 4}) {
      LoaderOptions options;
      options.batch_size = 32;
      options.shuffle = options.drop_last = training;
      options.seed = 6;
      options.workers = workers;
      Loader loader(samples(set, transform(training)), options);
      Epoch seen;
      Batch batch;
      loader.start(2);
      while (loader.next(batch)) {
        seen.indices.insert(seen.indices.end(), batch.indices.begin(), batch.indices.end());
        const auto labels = batch.fields.at("label").values<std::int64_t>();
        const auto pixels = batch.fields.at("image").values<float>();
        seen.labels.insert(seen.labels.end(), labels.begin(), labels.end());
        seen.pixels.insert(seen.pixels.end(), pixels.begin(), pixels.end());
      }
      for (std::int64_t index : seen.indices) EXPECT_FALSE(bad.contains(set->sample_name(index)));
      if (training) {  // each is replaced; the last partial batch is dropped
        EXPECT_EQ(static_cast<std::int64_t>(seen.indices.size()), set->size() / 32 * 32);
      } else {
        EXPECT_EQ(seen.indices.size(), static_cast<std::size_t>(set->size()) - bad.size());
        const LoaderReport report = loader.report();
        EXPECT_EQ(report.bad_images, static_cast<std::int64_t>(bad.size()));
        EXPECT_EQ(std::set(report.bad_names.begin(), report.bad_names.end()), bad);
      }
      if (workers == 0) expected = seen;
      EXPECT_TRUE(seen == expected) << workers << " workers";
    }
  }
}

// Any other exception of a worker reaches the caller of next().
TEST_F(DamagedFolder, OtherExceptionsReachCaller) {
  class Failing final : public Dataset {
   public:
    Failing() { labels_.assign(64, 0); }
    Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
      if (index == 40) throw std::bad_alloc();
      if (index == 50) throw 7;
      workspace.image = {kSide, kSide, 3, Bytes(3 * kSide * kSide)};
      return {.encoded = {}, .image = &workspace.image, .ready = {}};
    }
    std::string sample_name(std::int64_t) const override { return "a sample"; }
  };
  for (int workers : {0, 1, 4}) {
    LoaderOptions options;
    options.batch_size = 8;
    options.workers = workers;
    Loader loader(samples(std::make_shared<Failing>(), transform(false)), options);
    Batch batch;
    loader.start(0);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(loader.next(batch));
    EXPECT_THROW(loader.next(batch), std::bad_alloc);
    loader.start(0, 6);
    EXPECT_THROW(loader.next(batch), int);
    loader.start(0, 7);
    EXPECT_TRUE(loader.next(batch));
  }
}

}  // namespace
}  // namespace dtn
