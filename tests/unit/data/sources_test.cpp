// A run gets the same batches, bit for bit, from every storage format of the images.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "archives.h"
#include "data/feed/loader.h"
#include "data/source/pack.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"
#include "io/image/image_encode.h"
#include "samples.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;

constexpr int kClasses = 3, kImages = 40, kSide = 8;

// A file of the data set, with its class.
struct File {
  int label;
  std::string name, content;
};

std::string jpeg(int width, int height, std::uint32_t seed) {
  Image image{width, height, 3, noise(static_cast<std::size_t>(3 * width * height), seed)};
  std::vector<std::byte> bytes;
  encode_jpeg(image, 80, bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class SourcesTest : public testing::Test {
 protected:
  SourcesTest() {
    for (int i = 0; i < kImages; ++i) {
      std::string content = jpeg(9 + i % 7, 10 + i % 4, static_cast<std::uint32_t>(i));
      if (i % 20 == 7) content.resize(content.size() / 2);  // some are damaged
      files.push_back({i % kClasses, cat("ILSVRC2012_val_", 10000001 + i * 7 % kImages, ".JPEG"),
                       std::move(content)});
    }
    model.num_classes = 1000;
    ::setenv("XDG_CACHE_HOME", dir.string().c_str(), 1);
    write_folder();
    write_imagenet();
    write_shards();
    for (Split split : {Split::kTrain, Split::kVal}) {
      pack_dataset(*open("imagefolder", split), dir.path() / cat(name_of(split), ".packed"), {});
    }
  }
  ~SourcesTest() override { ::unsetenv("XDG_CACHE_HOME"); }

  static std::string class_name(int label) {
    return imagenet_class_names()[static_cast<std::size_t>(label)];
  }
  void write(const fs::path& path, const std::string& text) {
    write_bytes(dir.path() / path, Bytes(text.begin(), text.end()));
  }
  void write_folder() {
    for (const File& f : files) {
      for (const char* split : {"train", "val"}) {
        write(fs::path(split) / class_name(f.label) / f.name, f.content);
      }
    }
  }
  // The archives hold the files in no order.
  void write_imagenet() {
    TarFile outer, val;
    std::string truth;
    for (int label : {2, 0, 1}) {
      TarFile inner;
      for (const File& f : files) {
        if (f.label == label) inner.add(f.name, f.content);
      }
      outer.add(class_name(label) + ".tar", inner.bytes());
    }
    // Line n of the ground truth belongs to image n, so the images are numbered from 1 here.
    std::map<std::string, int> ids;  // by name
    for (const File& f : files) ids[f.name] = std::array{449, 450, 442}[f.label];
    std::vector<std::string> lines(kImages);
    for (const File& f : files) {
      const int number = std::stoi(f.name.substr(15)) - 10000000;
      lines[static_cast<std::size_t>(number - 1)] = cat(ids[f.name], "\n");
      val.add(cat("ILSVRC2012_val_", number, ".JPEG"), f.content);
      fs::rename(
          dir.path() / "val" / class_name(f.label) / f.name,
          dir.path() / "val" / class_name(f.label) / cat("ILSVRC2012_val_", number, ".JPEG"));
    }
    for (const std::string& line : lines) truth += line;
    write("ILSVRC2012_img_train.tar", outer.bytes());
    write("ILSVRC2012_img_val.tar", val.bytes());
    write("ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", truth);
  }
  void write_shards() {
    for (int shard = 0; shard < 4; ++shard) {
      TarFile tar;
      for (int i = shard; i < kImages; i += 4) {
        const File& f = files[static_cast<std::size_t>(kImages - 1 - i)];
        const std::string key = f.name.substr(0, f.name.find('.'));
        tar.add(key + ".cls", cat(f.label)).add(f.name, f.content);
      }
      write(cat("in-train-00000", shard, ".tar"), tar.bytes());
    }
  }

  std::unique_ptr<Dataset> open(const std::string& dataset, Split split) {
    DataConfig data;
    data.dataset = dataset;
    data.root = dir.string();
    return open_dataset(data, model, split, 0);
  }

  // Returns all bits of two epochs.
  std::vector<std::string> batches(const std::string& dataset, Split split, int workers) {
    const bool train = split == Split::kTrain;
    AugmentConfig augment;
    if (train) augment.preset = AugmentPreset::kLight;
    LoaderOptions options;
    options.batch_size = 6;
    options.shuffle = options.drop_last = train;
    options.seed = 5;
    options.workers = workers;
    Loader loader(samples(open(dataset, split), Transform(DataConfig{}, augment, kSide, 3, train)),
                  options);
    std::vector<std::string> out;
    Batch batch;
    for (int epoch : {0, 1}) {
      loader.start(epoch);
      while (loader.next(batch)) {
        std::string bits;
        for (std::int64_t index : batch.indices) bits += cat(index, " ");
        for (std::int64_t label : batch.fields.at("label").values<std::int64_t>())
          bits += cat(label, " ");
        bits.append(static_cast<const char*>(batch.fields.at("image").raw()),
                    batch.fields.at("image").nbytes());
        out.push_back(std::move(bits));
      }
    }
    EXPECT_EQ(loader.report().bad_images, 2) << dataset;
    return out;
  }

  TempFolder dir;
  ModelConfig model;
  std::vector<File> files;
};

TEST_F(SourcesTest, GiveSameBatches) {
  testing::internal::CaptureStderr();
  const auto train = batches("imagefolder", Split::kTrain, 0);
  const auto val = batches("imagefolder", Split::kVal, 0);
  ASSERT_EQ(train.size(), 12u);
  ASSERT_EQ(val.size(), 14u);
  for (int workers : {0, 2}) {
    for (const char* dataset : {"imagenet", "webdataset", "packed"}) {
      EXPECT_TRUE(batches(dataset, Split::kTrain, workers) == train) << dataset;
    }
    for (const char* dataset : {"imagenet", "packed"}) {
      EXPECT_TRUE(batches(dataset, Split::kVal, workers) == val) << dataset;
    }
  }
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace dtn
