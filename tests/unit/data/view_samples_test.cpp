// Several views of each image as samples: fields, independence of workers, ranks and resumption,
// given views, and images without classes.
#include "data/feed/view_samples.h"

#include <algorithm>
#include <set>

#include "data/feed/epoch_plan.h"
#include "data/feed/field_buffers.h"
#include "data/feed/loader.h"
#include "data/sample/normalization.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"
#include "golden/data/fixtures.h"
#include "io/image/image_encode.h"
#include "tensors.h"

namespace dtn {
namespace {

using namespace dtn::test;

constexpr int kLarge = 24, kSmall = 8, kLocals = 3;

ExperimentConfig config_of(const std::string& task, int channels = 3) {
  ExperimentConfig config;
  config.seed = 9;
  config.task = task;
  config.model.image_size = kLarge;
  config.model.channels = channels;
  config.model.num_classes = 0;
  config.data.dataset = "imagefolder";
  config.augment.preset = task == "dino" ? AugmentPreset::kDino : AugmentPreset::kSupcon;
  config.augment.color_jitter = 0.4;
  config.augment.gray = 0.2;
  config.augment.blur = {1, 0.1, 0.5};
  config.augment.solarize = 0.2;
  config.dino.local_crops = kLocals;
  config.dino.local_size = kSmall;
  return config;
}

void write_jpeg(const std::filesystem::path& path, const Image& image) {
  std::vector<std::byte> bytes;
  encode_jpeg(image, 90, bytes);
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  write_bytes(path, Bytes(first, first + bytes.size()));
}

// A folder of images of different sizes, with or without two classes.
struct Folder {
  explicit Folder(bool classes, int count = 9, int side = 60) {
    for (int i = 0; i < count; ++i) {
      const auto seed = static_cast<std::uint32_t>(3 * i + 2);
      const std::string name = cat("image-", i, ".jpg");
      const std::string folder = !classes ? "" : i % 2 == 0 ? "even/" : "odd/";
      write_jpeg(dir.path() / "train" / (folder + name),
                 golden::procedural_image(seed, side + 3 * i, side - i));
    }
  }
  TempFolder dir;
};

std::shared_ptr<const ViewSamples> as_views(const std::shared_ptr<const SampleSource>& source) {
  auto views = std::dynamic_pointer_cast<const ViewSamples>(source);
  EXPECT_TRUE(views);
  return views;
}

// Returns the fields of one sample.
Fields sample_of(const SampleSource& source, std::int64_t index, const SampleKey& key) {
  Fields fields;
  for (const FieldSpec& spec : source.host_fields()) {
    fields[spec.name] = allocate_rows(spec, 1, kCpu);
  }
  FieldRow row(fields, 0);
  const auto workspace = source.make_workspace();
  source.make(index, key, row, *workspace);
  return fields;
}

TEST(ViewSamples, HaveTheFieldsOfTheirTask) {
  const Folder folder(true);
  ExperimentConfig config = config_of("dino");
  config.data.root = folder.dir.string();
  const auto dino = dino_samples_of(config, kCpu);
  EXPECT_EQ(dino->host_fields(), (std::vector<FieldSpec>{{"global", {2, 3, kLarge, kLarge}},
                                                         {"local", {kLocals, 3, kSmall, kSmall}}}));
  EXPECT_EQ(dino->device_fields(), dino->host_fields());
  EXPECT_EQ(dino->noun(), "images");
  EXPECT_EQ(dino->size(), 9);
  EXPECT_EQ(dino->class_names(), (std::vector<std::string>{"even", "odd"}));
  EXPECT_EQ(dino->identity(0), "even/image-0.jpg 0");
  EXPECT_EQ(as_views(dino)->views(), 2 + kLocals);
  config.dino.local_crops = 0;
  EXPECT_EQ(dino_samples_of(config, kCpu)->host_fields(),
            (std::vector<FieldSpec>{{"global", {2, 3, kLarge, kLarge}}}));

  config = config_of("supcon");
  config.data.root = folder.dir.string();
  config.supcon.views = 3;
  const auto supcon = supcon_samples_of(config, kCpu);
  EXPECT_EQ(supcon->host_fields(), (std::vector<FieldSpec>{{"views", {3, 3, kLarge, kLarge}},
                                                           {"label", {3}, DType::kInt64}}));
  EXPECT_EQ(*sample_of(*supcon, 8, {}).at("label").data<std::int64_t>(), 1);
}

// The draws of each view, by the config: the first large view is always blurred, the second is
// solarized, and dino's saturation has half the range of the brightness.
TEST(ViewSamples, PassTheConfigToEachView) {
  const Folder folder(true);
  ExperimentConfig config = config_of("dino");
  config.data.root = folder.dir.string();
  const auto dino = as_views(dino_samples_of(config, kCpu));
  const std::vector<ViewAugment>& large = dino->sets()[0].augments;
  const std::vector<ViewAugment>& small = dino->sets()[1].augments;
  EXPECT_EQ(large[0].jitter, (std::array<double, 4>{0.4, 0.4, 0.2, 0.1}));
  EXPECT_EQ(large[0].blur, 1);
  EXPECT_EQ(large[1].blur, 0.1);
  EXPECT_EQ(small[0].blur, 0.5);
  EXPECT_EQ(small[2].blur, 0.5);
  EXPECT_EQ(large[0].solarize, 0);
  EXPECT_EQ(large[1].solarize, 0.2);
  EXPECT_EQ(small[1].solarize, 0);
  EXPECT_EQ(large[1].crop.scale_min, 0.4);
  EXPECT_EQ(small[1].crop.scale_max, 0.4);
  EXPECT_EQ(small[1].crop.scale_min, 0.05);

  config = config_of("supcon");
  config.data.root = folder.dir.string();
  config.augment.scale_min = 0.2;
  config.augment.blur = {0.25};
  const auto supcon = as_views(supcon_samples_of(config, kCpu));
  for (const ViewAugment& view : supcon->sets()[0].augments) {
    EXPECT_EQ(view.jitter, (std::array<double, 4>{0.4, 0.4, 0.4, 0.1}));
    EXPECT_EQ(view.blur, 0.25);
    EXPECT_EQ(view.crop.scale_min, 0.2);
    EXPECT_EQ(view.gray, 0.2);
  }
}

// Each view equals the one that its draw makes from the whole decoded image.
TEST(ViewSamples, CutViewsFromOneDecodedImage) {
  for (const int channels : {1, 3}) {
    const Folder folder(true);
    ExperimentConfig config = config_of("dino", channels);
    config.data.root = folder.dir.string();
    config.data.decode = DecodeMode::kExact;
    const auto views = as_views(dino_samples_of(config, kCpu));
    const std::vector<float> table = normalization_table(resolve_normalization({}, channels));
    for (std::int64_t index = 0; index < views->size(); ++index) {
      const SampleKey key{5, 1, static_cast<std::uint64_t>(index) + 100};
      const Fields made = sample_of(*views, index, key);
      SampleWorkspace workspace;
      const Sample sample = views->dataset().load(index, workspace);
      const Image whole = decode_image(sample.encoded, workspace.name, {},
                                       channels == 1 ? ColorMode::kGray : ColorMode::kRgb);
      int number = 0;
      for (const ViewSet& set : views->sets()) {
        std::vector<float> want;
        for (const ViewAugment& augment : set.augments) {
          const ViewDraw draw = draw_view(augment, whole.width, whole.height, key, number++);
          ResampleWorkspace resample;
          ImageOpsWorkspace ops;
          Image image;
          apply(draw, whole, set.size, {Interpolation::kBicubic}, resample, ops, image);
          const std::size_t first = want.size();
          want.resize(first + image.pixels.size());
          normalize_image(image, table, false, want.data() + first);
        }
        EXPECT_TRUE(std::ranges::equal(made.at(set.field).values<float>(), want))
            << set.field << " of image " << index << ", " << channels << " channels";
      }
    }
  }
}

// Fast decoding reduces a large image if all views stay sharp, and only then.
TEST(ViewSamples, DecodeAtTheLargestScaleThatAViewNeeds) {
  const Folder folder(false, 2, 900);
  ExperimentConfig config = config_of("dino");
  config.data.root = folder.dir.string();
  const auto pixels_of = [&](DecodeMode mode) {
    config.data.decode = mode;
    return sample_of(*dino_samples_of(config, kCpu), 1, {5, 1, 3});
  };
  const Fields exact = pixels_of(DecodeMode::kExact), fast = pixels_of(DecodeMode::kFast);
  EXPECT_FALSE(same_bits(exact.at("global"), fast.at("global")));
  double sum = 0;
  const auto a = exact.at("global").values<float>(), b = fast.at("global").values<float>();
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  EXPECT_LT(sum / static_cast<double>(a.size()), 0.05);
  // A view that needs all pixels keeps the others exact.
  config.dino.local_scale_min = config.dino.local_scale_max = 1e-4;
  EXPECT_TRUE(same_bits(pixels_of(DecodeMode::kExact).at("global"),
                        pixels_of(DecodeMode::kFast).at("global")));
}

// Pixels and flips give the same views as floats, by the definition of NormalizeImages.
TEST(ViewSamples, PixelsHoldTheSameViews) {
  for (const char* task : {"dino", "supcon"}) {
    const Folder folder(true);
    ExperimentConfig config = config_of(task);
    config.data.root = folder.dir.string();
    const bool dino = config.task == "dino";
    const auto make =
        dino ? [](const ExperimentConfig& c, Device d) { return dino_samples_of(c, d); }
             : [](const ExperimentConfig& c, Device d) { return supcon_samples_of(c, d); };
    const auto floats = as_views(make(config, kCpu)), raw = as_views(make(config, kCuda));
    EXPECT_TRUE(raw->carries_pixels());
    EXPECT_EQ(raw->device_fields(), floats->device_fields());
    const std::vector<float> table = normalization_table(resolve_normalization({}, 3));
    for (std::int64_t index = 0; index < 4; ++index) {
      const Fields want = sample_of(*floats, index, {5, 1, 3}),
                   got = sample_of(*raw, index, {5, 1, 3});
      for (const ViewSet& set : raw->sets()) {
        const auto pixels = got.at(set.field + ".pixels").values<std::uint8_t>();
        const auto flips = got.at(set.field + ".flips").values<std::uint8_t>();
        const int side = set.size.height;
        std::size_t at = 0;
        for (const float value : want.at(set.field).values<float>()) {
          const auto i = static_cast<int>(at++);
          const int view = i / (3 * side * side), c = i / (side * side) % 3, y = i / side % side;
          const int x = flips[static_cast<std::size_t>(view)] ? side - 1 - i % side : i % side;
          const int from = ((view * side + y) * side + x) * 3 + c;
          EXPECT_EQ(
              value,
              table[static_cast<std::size_t>(c * 256) + pixels[static_cast<std::size_t>(from)]]);
        }
      }
      EXPECT_EQ(got.has("label"), !dino);
    }
  }
}

struct ViewRecord {
  std::int64_t number;
  std::vector<std::int64_t> indices;
  std::vector<float> global, local;
  bool operator==(const ViewRecord&) const = default;
};

std::vector<ViewRecord> epoch_of(const std::shared_ptr<const SampleSource>& source,
                                 const LoaderOptions& options, std::int64_t first_batch = 0) {
  Loader loader(source, options);
  loader.start(2, first_batch);
  std::vector<ViewRecord> records;
  Batch batch;
  while (loader.next(batch)) {
    const auto global = batch.fields.at("global").values<float>();
    const auto local = batch.fields.at("local").values<float>();
    records.push_back({batch.number,
                       batch.indices,
                       {global.begin(), global.end()},
                       {local.begin(), local.end()}});
  }
  return records;
}

TEST(ViewSamples, DoNotDependOnWorkersResumptionOrRanks) {
  const Folder folder(true);
  ExperimentConfig config = config_of("dino");
  config.data.root = folder.dir.string();
  const auto source = dino_samples_of(config, kCpu);
  LoaderOptions options;
  options.batch_size = 4;
  options.shuffle = options.drop_last = true;
  options.seed = 3;
  options.repeats = 2;
  const std::vector<ViewRecord> want = epoch_of(source, options);
  ASSERT_EQ(want.size(), 4u);
  EXPECT_NE(want[0].global, want[1].global);
  for (int workers = 0; workers <= 4; ++workers) {
    options.workers = workers;
    EXPECT_EQ(epoch_of(source, options), want) << workers << " workers";
    EXPECT_EQ(epoch_of(source, options, 2), std::vector(want.begin() + 2, want.end()))
        << workers << " workers";
  }
  options.ranks = 2;
  const std::size_t large = want[0].global.size() / 4, small = want[0].local.size() / 4;
  for (options.rank = 0; options.rank < 2; ++options.rank) {
    const auto rows = rows_of_rank(options.batch_size, options.rank, 2);
    const std::vector<ViewRecord> mine = epoch_of(source, options);
    ASSERT_EQ(mine.size(), want.size());
    for (std::size_t b = 0; b < mine.size(); ++b) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto row = static_cast<std::size_t>(rows[i]);
        EXPECT_TRUE(std::equal(&mine[b].global[i * large], &mine[b].global[i * large] + large,
                               &want[b].global[row * large]));
        EXPECT_TRUE(std::equal(&mine[b].local[i * small], &mine[b].local[i * small] + small,
                               &want[b].local[row * small]));
      }
    }
  }
}

// The views of one image differ, and so do their epochs.
TEST(ViewSamples, DrawEachViewAnew) {
  const Folder folder(true);
  ExperimentConfig config = config_of("dino");
  config.data.root = folder.dir.string();
  const auto source = dino_samples_of(config, kCpu);
  const Fields first = sample_of(*source, 0, {5, 0, 0}), second = sample_of(*source, 0, {5, 1, 0});
  std::set<std::vector<float>> different;
  for (const Fields* fields : {&first, &second}) {
    const auto values = fields->at("local").values<float>();
    const std::size_t each = values.size() / kLocals;
    for (std::size_t i = 0; i < kLocals; ++i) {
      const auto view = values.subspan(i * each, each);
      different.emplace(view.begin(), view.end());
    }
  }
  EXPECT_EQ(different.size(), 2u * kLocals);
}

TEST(ViewSamples, ImagesWithoutClassesNeedNoFolders) {
  const Folder folder(false);
  ExperimentConfig config = config_of("dino");
  config.data.root = folder.dir.string();
  const auto dino = dino_samples_of(config, kCpu);
  EXPECT_EQ(dino->size(), 9);
  EXPECT_TRUE(dino->class_names().empty());
  EXPECT_EQ(dino->identity(3), "image-3.jpg 0");
  EXPECT_TRUE(dino->sample_name(3).ends_with("train/image-3.jpg"));
  EXPECT_NE(dino->description().find("9 train images in "), std::string::npos);
  EXPECT_EQ(sample_of(*dino, 3, {}).at("global").shape(), (Shape{1, 2, 3, kLarge, kLarge}));
  // Classification still needs class folders.
  expect_error<DataError>([&] { open_image_folder(config.data, config.model, Split::kTrain); },
                          {"has no class folders"});
  // For contrastive training, an image without a class is a class of its own.
  ExperimentConfig supcon = config_of("supcon");
  supcon.data.root = folder.dir.string();
  EXPECT_EQ(*sample_of(*supcon_samples_of(supcon, kCpu), 3, {}).at("label").data<std::int64_t>(),
            3);
  // Class folders count, if there are any.
  write_jpeg(folder.dir.path() / "train/odd/a.jpg", golden::procedural_image(2, 30, 30));
  EXPECT_EQ(dino_samples_of(config, kCpu)->size(), 1);
  // An empty folder is an error.
  const TempFolder empty;
  std::filesystem::create_directories(empty.path() / "train");
  config.data.root = empty.string();
  expect_error<DataError>([&] { dino_samples_of(config, kCpu); }, {"the folder has no images"});
}

TEST(ViewSamples, NeedAPresetThatMakesViews) {
  const Folder folder(true);
  ExperimentConfig config = config_of("dino");
  config.data.root = folder.dir.string();
  config.augment = {};
  expect_error<ConfigError>([&] { dino_samples_of(config, kCpu); },
                            {"task dino", "set augment.preset: dino or supcon"});
}

// Values that tell tensors and elements apart.
Tensor numbered(const Shape& shape, float first) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return Tensor::from(values, shape);
}

class GivenViews : public testing::Test {
 protected:
  GivenViews() : config(config_of("dino")) {
    config.data.dataset = "tensors";
    config.data.root = dir.string();
    config.augment = {};
  }
  void write(const NamedTensors& tensors) {
    write_safetensors(dir.path() / "train.safetensors", tensors);
  }
  void expect_refused(const NamedTensors& tensors, const std::vector<std::string>& parts) {
    write(tensors);
    expect_error<DataError>([&] { dino_samples_of(config, kCpu); }, parts);
  }
  TempFolder dir;
  ExperimentConfig config;
  const Tensor global = numbered({4, 2, 3, kLarge, kLarge}, 0.5f);
  const Tensor local = numbered({4, kLocals, 3, kSmall, kSmall}, -7);
};

TEST_F(GivenViews, AreUsedAsTheyAre) {
  write({{"global", global}, {"local", local}});
  for (const Device device : {kCpu, kCuda}) {  // no pixels, so a device gets the same
    const auto source = dino_samples_of(config, device);
    EXPECT_EQ(source->size(), 4);
    EXPECT_EQ(source->host_fields(), source->device_fields());
    EXPECT_FALSE(source->make_finisher(kCpu));
    const Fields made = sample_of(*source, 2, {1, 2, 3});
    EXPECT_TRUE(same_bits(made.at("global"), global.slice(2, 3)));
    EXPECT_TRUE(same_bits(made.at("local"), local.slice(2, 3)));
  }
}

// Programs that show or time the views choose them by the task, as the training does.
TEST_F(GivenViews, GoWithAnyPreset) {
  write({{"global", global}, {"local", local}});
  for (const AugmentPreset preset :
       {AugmentPreset::kNone, AugmentPreset::kDino, AugmentPreset::kSupcon}) {
    config.augment.preset = preset;
    EXPECT_TRUE(trains_on_views(config));
    EXPECT_EQ(open_view_samples(config, kCpu)->host_fields(),
              dino_samples_of(config, kCpu)->host_fields());
  }
  config.task = "classify";
  config.augment.preset = AugmentPreset::kNone;
  EXPECT_FALSE(trains_on_views(config));
}

TEST_F(GivenViews, MayLackLocalViewsOnlyIfThereAreNone) {
  expect_refused({{"global", global}},
                 {"train.safetensors", "`local` is missing", "expected [4, 3, 3, 8, 8]"});
  config.dino.local_crops = 0;
  EXPECT_EQ(dino_samples_of(config, kCpu)->host_fields().size(), 1u);
}

TEST_F(GivenViews, ErrorsNameFieldAndShapes) {
  expect_refused({{"global", numbered({4, 3, 3, kLarge, kLarge}, 0)}, {"local", local}},
                 {"`global` is [4, 3, 3, 24, 24]", "expected [4, 2, 3, 24, 24]"});
  expect_refused({{"global", global}, {"local", numbered({4, kLocals, 3, 9, kSmall}, 0)}},
                 {"`local` is [4, 3, 3, 9, 8]", "expected [4, 3, 3, 8, 8]"});
  expect_refused({{"global", global}, {"local", numbered({3, kLocals, 3, kSmall, kSmall}, 0)}},
                 {"`local` has views of 3 images, `global` of 4"});
  expect_refused({{"global", Tensor::full({4, 2, 3, kLarge, kLarge}, DType::kUInt8, 1)}},
                 {"`global` is uint8", "float32"});
  expect_refused({{"images", global}}, {"has no tensor 'global'", "it has: images"});
  write({{"global", global}, {"local", local}});
  config.data.classes = {0};
  expect_error<ConfigError>([&] { dino_samples_of(config, kCpu); },
                            {"data.classes", "given views"});
  // A classifier still needs images.
  write({{"global", global}, {"local", local}});
  expect_error<DataError>([&] { open_tensors(config.data, config.model, Split::kTrain); },
                          {"has no tensor 'images'", "global, local"});
}

TEST_F(GivenViews, OfSupconComeWithLabels) {
  config.task = "supcon";
  const Tensor views = numbered({3, 2, 3, kLarge, kLarge}, 1);
  write({{"views", views}, {"labels", Tensor::from(std::vector<std::int64_t>{7, 0, 7}, {3})}});
  const auto source = supcon_samples_of(config, kCpu);
  const Fields made = sample_of(*source, 2, {});
  EXPECT_TRUE(same_bits(made.at("views"), views.slice(2, 3)));
  EXPECT_EQ(*made.at("label").data<std::int64_t>(), 7);
  // Without labels, the positives of a view are the other views of its image.
  write({{"views", views}});
  EXPECT_EQ(*sample_of(*supcon_samples_of(config, kCpu), 2, {}).at("label").data<std::int64_t>(),
            2);
  write({{"views", views}, {"labels", Tensor::from(std::vector<std::int64_t>{7, 0}, {2})}});
  expect_error<DataError>([&] { supcon_samples_of(config, kCpu); }, {"`labels` is [2]"});
}

}  // namespace
}  // namespace dtn
