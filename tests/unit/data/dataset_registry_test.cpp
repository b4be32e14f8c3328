// The registry of data sets, and its effect on configs.
#include "dtn/data/dataset_registry.h"

#include <algorithm>
#include <map>
#include <set>

#include "config/keys.h"
#include "data/sample/transforms.h"
#include "data_fixtures.h"
#include "dtn/config/load.h"
#include "dtn/data/datasets.h"
#include "unit/config/fake_norms.h"

namespace dtn {
namespace {

using namespace dtn::test;

// A value for each key that only some data sets have.
const std::map<std::string, std::string> kValues = {{"train", "x"},
                                                    {"val", "y"},
                                                    {"mean", "0.5"},
                                                    {"std", "0.25"},
                                                    {"size", "4"},
                                                    {"class_order", "natural"},
                                                    {"labels", "z.csv"},
                                                    {"split", "0.2"},
                                                    {"class_names", "c.txt"},
                                                    {"side_by_side", "true"},
                                                    {"direction", "b_to_a"},
                                                    {"drawn", "question"}};

ExperimentConfig parse(const std::string& data, const std::vector<std::string>& set = {},
                       const DatasetRegistry& datasets = dataset_registry()) {
  ConfigSchemas schemas = dtn::testing::fake_schemas();
  schemas.datasets = datasets.schemas();
  return parse_experiment("model: {preset: vit_t}\ndata: {" + data + "}", "t.yaml", set, schemas);
}

TEST(DatasetRegistry, EachRowIsDocumentedAndListsExistingKeys) {
  std::set<std::string> paths, names;
  for (const config::Key& key : config::keys()) paths.insert(key.path);
  for (const DatasetEntry& row : dataset_registry()) {
    EXPECT_TRUE(names.insert(row.schema.name).second) << row.schema.name;
    EXPECT_FALSE(row.schema.doc.empty()) << row.schema.name;
    for (const std::string& key : row.schema.reads) {
      EXPECT_TRUE(paths.contains("data." + key)) << row.schema.name << ": " << key;
      EXPECT_TRUE(kValues.contains(key)) << key << " is not in this test";
    }
  }
  EXPECT_GE(names.size(), 9u);
}

TEST(DatasetRegistry, ConfigRejectsKeysOfOtherDatasets) {
  for (const DatasetSchema& dataset : dataset_registry().schemas()) {
    for (const auto& [key, value] : kValues) {
      const std::string text = cat("dataset: ", dataset.name, ", ", key, ": ", value);
      if (std::ranges::count(dataset.reads, key) > 0) {
        EXPECT_EQ(parse(text).data.dataset, dataset.name);
      } else {
        expect_error<ConfigError>(
            [&] { parse(text); },
            {"t.yaml:2:", "data." + key, "is not read by the data set", dataset.name});
      }
    }
  }
}

TEST(DatasetRegistry, RejectsUnknownNames) {
  expect_error<ConfigError>([&] { parse("dataset: webdatasets"); },
                            {"2:17", "did you mean 'webdataset'?", "imagefolder", "synthetic"});
  DataConfig data;
  data.dataset = "webdatasets";
  expect_error<ConfigError>([&] { open_dataset(data, {}, Split::kTrain, 0); },
                            {"'webdatasets'", "imagefolder", "synthetic"});
}

TEST(DatasetRegistry, HasDefaultNormalization) {
  DataConfig data;
  for (auto [name, mean, std] : {std::tuple{"idx", 0.2860f, 0.3530f},
                                 {"cifar10", 0.4808f, 0.2392f},
                                 {"cifar100", 0.4874f, 0.2520f},
                                 {"imagefolder", 0.459f, 0.226f},
                                 {"packed", 0.459f, 0.226f}}) {
    data.dataset = name;
    const Normalization n = resolve_normalization(data, 1);
    EXPECT_EQ(n.mean, std::vector<float>{mean}) << name;
    EXPECT_EQ(n.std, std::vector<float>{std}) << name;
  }
}

TEST(DatasetRegistry, RecognizesIdxDataByFolderName) {
  DataConfig data;
  data.dataset = "idx";
  for (auto [root, mean] : {std::pair{"/usr/share/datasets/fashion-mnist", 0.2860f},
                            {"data/FashionMNIST/raw", 0.2860f},
                            {"data/MNIST/raw", 0.1307f},
                            {"data/mnist/", 0.1307f},
                            {"data/emnist", 0.5f},
                            {"data/kmnist", 0.5f}}) {
    data.root = root;
    EXPECT_EQ(resolve_normalization(data, 1).mean, std::vector<float>{mean}) << root;
  }
  data.mean = {0.25};
  EXPECT_EQ(resolve_normalization(data, 1).mean, std::vector<float>{0.25f});
}

// A fake data set with images of one pixel.
class Moons final : public Dataset {
 public:
  Moons(std::int64_t size, std::uint64_t seed) {
    labels_.assign(static_cast<std::size_t>(size), static_cast<std::int64_t>(seed));
    description_ = "moons";
  }
  Sample load(std::int64_t, SampleWorkspace& workspace) const override {
    workspace.image = {1, 1, 3, {1, 2, 3}};
    return {.encoded = {}, .image = &workspace.image, .ready = {}};
  }
  std::string sample_name(std::int64_t index) const override { return cat("moon-", index); }
};

TEST(DatasetRegistry, ProgramsCanAddDatasets) {
  const DatasetEntry moons{
      {"moons", "two of them", {"size"}},
      [](const DataConfig& data, const ModelConfig&, Split split, std::uint64_t seed) {
        return std::make_unique<Moons>(*data.size + (split == Split::kVal), seed);
      },
      {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, 0.5, 0.5}};
  DatasetRegistry mine = dataset_registry();
  mine.add(moons);
  // The keys of the other data set are dropped.
  const ExperimentConfig config = parse("dataset: idx, train: a, mean: 0.1, crop_pct: 0.9",
                                        {"data.dataset=moons", "data.size=7"}, mine);
  EXPECT_FALSE(config.data.train || !config.data.mean.empty());
  EXPECT_EQ(config.data.crop_pct, 0.9);
  const auto open = [&](Split split) {
    return open_dataset(config.data, config.model, split, 5, mine);
  };
  EXPECT_EQ(open(Split::kVal)->size(), 8);
  EXPECT_EQ(open(Split::kTrain)->label(6), 5);
  EXPECT_EQ(resolve_normalization(config.data, 3, mine).mean, (std::vector<float>{0.5, 0.5, 0.5}));
  expect_error<ConfigError>([&] { parse("dataset: moons, mean: 1", {}, mine); },
                            {"data.mean", "'moons'"});
  expect_error<ConfigError>([&] { parse("dataset: moons"); }, {"data.dataset", "imagefolder"});
  expect_error<Error>([&] { mine.add(moons); }, {"'moons' already"});
}

}  // namespace
}  // namespace dtn
