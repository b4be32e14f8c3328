// The generated pictures of shapes, and the files that dtn-data shapes writes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "data/coco/annotations.h"
#include "data/shapes/scene.h"
#include "data/shapes/write_shapes.h"
#include "data_fixtures.h"
#include "dtn/core/parallel.h"
#include "io/crc32c.h"
#include "io/file.h"

namespace dtn::shapes {
namespace {

namespace fs = std::filesystem;
using namespace dtn::test;

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// All files below a folder, with their bytes.
std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    content[fs::relative(entry.path(), folder).string()] = read_text(entry.path().string());
  }
  return content;
}

TEST(ShapesScene, DependsOnKeyAlone) {
  const SceneKey key{.size = 64, .seed = 9, .split = 1, .number = 30};
  const Image image = draw_scene(plan_scene(key));
  EXPECT_EQ(draw_scene(plan_scene(key)).pixels, image.pixels);
  for (const SceneKey& other : {SceneKey{64, 10, 1, 30}, {64, 9, 0, 30}, {64, 9, 1, 31}}) {
    EXPECT_NE(draw_scene(plan_scene(other)).pixels, image.pixels);
  }
}

// The same pictures on every machine. A change of the generator changes these numbers.
TEST(ShapesScene, PixelsAreFixed) {
  std::uint32_t checksum = 0;
  for (std::uint32_t number = 0; number < 50; ++number) {
    const Image image = draw_scene(plan_scene({.size = 128, .seed = 1, .number = number}));
    checksum = crc32c(std::as_bytes(std::span(image.pixels)), checksum);
  }
  EXPECT_EQ(checksum, 0xd9472b9fu);
}

TEST(ShapesScene, ShapesLieInsideAndApart) {
  for (int size : {32, 33, 128, 301}) {
    std::set<std::size_t> counts;
    int upright = 0, crowds = 0;
    std::array<int, kForms> forms{};
    for (std::uint32_t number = 0; number < 300; ++number) {
      const Scene scene = plan_scene({.size = size, .seed = 3, .number = number});
      ASSERT_EQ(std::max(scene.width, scene.height), size);
      ASSERT_GE(std::min(scene.width, scene.height), size * 3 / 4);
      ASSERT_LT(std::min(scene.width, scene.height), size);
      upright += scene.height > scene.width;
      crowds += scene.crowd.has_value();
      counts.insert(scene.shapes.size());
      ASSERT_EQ(scene.shapes.empty(), number % 25 == 11);
      for (const Shape& shape : scene.shapes) {
        ++forms[static_cast<int>(shape.form)];
        ASSERT_GE(shape.radius * 100, 9 * size * kUnits);
        ASSERT_LE(shape.radius * 100, 27 * size * kUnits);
        // The first corner of an upright triangle is above, that of a square below on the right.
        const double x0 = shape.corners[0].x - shape.center.x;
        const double y0 = shape.corners[0].y - shape.center.y;
        const double untilted = shape.form == Form::kSquare ? 45 : -90, degree = 3.14159265 / 180;
        ASSERT_LE(std::abs(std::atan2(y0, x0) / degree - untilted), 15 + 100.0 / shape.radius);
        for (const Point& p : shape.corners) {
          const int x = p.x - shape.center.x, y = p.y - shape.center.y;
          ASSERT_NEAR(std::hypot(x, y), shape.radius, 1.5);
          ASSERT_TRUE(0 <= p.x && p.x <= scene.width * kUnits) << p.x;
          ASSERT_TRUE(0 <= p.y && p.y <= scene.height * kUnits) << p.y;
          if (!scene.crowd) continue;
          const ImageRegion& r = scene.crowd->region;
          ASSERT_FALSE(r.x0 * kUnits < p.x && p.x < r.x1 * kUnits && r.y0 * kUnits < p.y &&
                       p.y < r.y1 * kUnits);
        }
        for (const Shape& other : scene.shapes) {
          if (&other == &shape) continue;
          const double dx = other.center.x - shape.center.x, dy = other.center.y - shape.center.y;
          ASSERT_GT(std::hypot(dx, dy), other.radius + shape.radius);
        }
      }
      for (const Shape& member : scene.crowd ? scene.crowd->members : std::vector<Shape>()) {
        const ImageRegion& r = scene.crowd->region;
        for (const Point& p : member.corners) {
          ASSERT_TRUE(r.x0 * kUnits <= p.x && p.x <= r.x1 * kUnits);
          ASSERT_TRUE(r.y0 * kUnits <= p.y && p.y <= r.y1 * kUnits);
        }
      }
    }
    EXPECT_EQ(counts, (std::set<std::size_t>{0, 1, 2, 3, 4})) << size;
    EXPECT_EQ(crowds, 24) << size;
    EXPECT_NEAR(upright, 150, 45) << size;
    for (int count : forms) EXPECT_GT(count, 150) << size;
  }
}

// A pixel inside a shape has its colour, but for the noise; one outside has that of the ground.
TEST(ShapesScene, PixelsHaveColoursOfShapes) {
  int inside = 0;
  for (std::uint32_t number = 0; number < 40; ++number) {
    const Scene scene = plan_scene({.size = 96, .seed = 5, .number = number});
    if (scene.crowd) continue;
    const Image image = draw_scene(scene);
    for (const Shape& shape : scene.shapes) {
      // Half of the radius is inside of every form.
      const int reach = shape.radius / 2 / kUnits - 1;
      for (int y = -reach; y <= reach; ++y) {
        for (int x = -reach; x <= reach; ++x) {
          if (x * x + y * y > reach * reach) continue;
          const int at = (shape.center.y / kUnits + y) * scene.width + shape.center.x / kUnits + x;
          for (int c = 0; c < 3; ++c) ASSERT_NEAR(image.pixels[3 * at + c], shape.color[c], 31);
          ++inside;
        }
      }
    }
    for (int c = 0; c < 3; ++c) {  // a corner: no shape reaches it
      ASSERT_NEAR(image.pixels[c], scene.ground[0][c], 31);
      ASSERT_NEAR(image.pixels[image.pixels.size() - 3 + c], scene.ground[1][c], 31);
    }
  }
  EXPECT_GT(inside, 2000);
}

class ShapesFiles : public testing::Test {
 protected:
  ShapesFiles() {
    options.output = dir.path() / "a" / "shapes";
    options.seed = 4;
    options.train = 70;
    options.val = 30;
    options.size = 64;
  }
  void expect_impossible(const std::vector<std::string>& parts) const {
    expect_error<ConfigError>([&] { write_shapes(options); }, parts);
    EXPECT_FALSE(fs::exists(dir.path() / "a"));
  }
  TempFolder dir;
  ShapesOptions options;
};

TEST_F(ShapesFiles, AnnotationsFitPictures) {
  const ShapesReport report = write_shapes(options);
  EXPECT_EQ(report.pictures, 100);
  EXPECT_EQ(report.crowds, 9);
  EXPECT_EQ(report.empty, 4);
  std::int64_t bytes = 0;
  for (const auto& [name, text] : content_of(options.output)) {
    bytes += static_cast<std::int64_t>(text.size());
  }
  EXPECT_EQ(report.bytes, bytes);
  std::int64_t shapes = 0, crowds = 0;
  for (const auto& [split, number, pictures] :
       {std::tuple{"train", 0u, 70u}, std::tuple{"val", 1u, 30u}}) {
    const CocoAnnotations read = read_coco_annotations(
        options.output / "annotations" / (std::string("instances_") + split + ".json"));
    ASSERT_EQ(read.images().size(), pictures);
    EXPECT_EQ(files_in(options.output / split), pictures);
    ASSERT_EQ(read.categories().size(), 3u);
    EXPECT_EQ(read.categories()[0].id, 4);
    EXPECT_EQ(read.categories()[0].name, "square");
    EXPECT_EQ(read.categories()[2].id, 23);
    EXPECT_EQ(read.categories()[2].name, "disc");
    for (std::size_t i = 0; i < pictures; ++i) {
      const CocoImage& image = read.images()[i];
      const Scene scene = plan_scene({64, options.seed, number, static_cast<std::uint32_t>(i)});
      const std::string path = (options.output / split / image.file_name).string();
      const Image picture = decode_image(read_file(path), path);
      EXPECT_EQ(picture.width, image.width);
      EXPECT_EQ(picture.pixels, draw_scene(scene).pixels) << path;
      EXPECT_EQ(read.of_image(i).size(), scene.shapes.size() + (scene.crowd ? 1 : 0)) << path;
      for (const std::int32_t a : read.of_image(i)) {
        const CocoAnnotation& annotation = read.annotations()[a];
        const Rle mask = read.mask(a);
        const PixelBox box = bounds_of(mask);
        (annotation.crowd ? crowds : shapes) += 1;
        // A corner of 60 degrees is one pixel wide at a depth of 0.9 pixels, and the next row that
        // has a pixel there is less than one pixel away.
        const double slack = annotation.crowd ? 0 : 2;
        EXPECT_NEAR(mask_area(mask), annotation.area, annotation.crowd ? 0 : annotation.area * 0.15)
            << path;
        EXPECT_NEAR(box.x, annotation.box[0], slack) << path;
        EXPECT_NEAR(box.y + box.height, annotation.box[1] + annotation.box[3], slack) << path;
      }
    }
  }
  EXPECT_EQ(shapes, report.shapes);
  EXPECT_EQ(crowds, report.crowds);
}

TEST_F(ShapesFiles, DependNeitherOnThreadsNorOnOtherPictures) {
  write_shapes(options);
  const auto content = content_of(options.output);
  EXPECT_EQ(content.size(), 102u);
  const int threads = max_threads();
  for (int n : {1, 3}) {
    set_num_threads(n);
    options.output = dir.path() / std::to_string(n);
    write_shapes(options);
    EXPECT_EQ(content_of(options.output), content);
  }
  set_num_threads(threads);
  options.train = 75;
  options.output = dir.path() / "more";
  write_shapes(options);
  const auto more = content_of(options.output);
  EXPECT_EQ(more.size(), 107u);
  for (const auto& [name, bytes] : content) {
    EXPECT_EQ(more.at(name) == bytes, name != "annotations/instances_train.json") << name;
  }
  options.seed = 5;
  options.output = dir.path() / "other";
  write_shapes(options);
  EXPECT_NE(content_of(options.output).at("annotations/instances_val.json"),
            content.at("annotations/instances_val.json"));
}

TEST_F(ShapesFiles, NeverOverwriteOtherFiles) {
  fs::create_directories(options.output);
  write_bytes(options.output / "notes.txt", {'x'});
  expect_error<ConfigError>([&] { write_shapes(options); },
                            {options.output.string(), "was not changed", "notes.txt", "--output"});
  EXPECT_EQ(files_in(options.output), 1u);
  fs::remove(options.output / "notes.txt");
  // Temporaries of a killed process are removed.
  fs::create_directories(options.output / "train.tmp-1-1");
  write_bytes(options.output / "train.tmp-1-1" / "1.png", {'x'});
  write_shapes(options);
  EXPECT_EQ(files_in(options.output), 3u);
  expect_error<ConfigError>([&] { write_shapes(options); }, {"already holds files"});
  options.output = options.output / "annotations" / "instances_val.json";
  expect_error<ConfigError>([&] { write_shapes(options); }, {"is not a folder"});
}

TEST_F(ShapesFiles, AreWrittenAllOrNone) {
  const auto stop = [&](std::int64_t pictures) {
    EXPECT_TRUE(fs::exists(options.output));
    EXPECT_FALSE(fs::exists(options.output / "train"));
    return pictures < 70;
  };
  const ShapesReport report = write_shapes(options, stop);
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.pictures, 70) << "the end of a block";
  EXPECT_FALSE(fs::exists(options.output)) << "an empty folder is left behind";
  fs::create_directories(options.output);
  write_shapes(options, [](std::int64_t) { return false; });
  EXPECT_EQ(files_in(options.output), 0u) << "a folder that was there stays";
}

TEST_F(ShapesFiles, LeaveNothingForImpossibleOptions) {
  options.size = 31;
  expect_impossible({"--size is 31", "from 32 to 4096"});
  options.size = 4097;
  expect_impossible({"--size is 4097"});
  options.size = 64;
  options.train = 0;
  expect_impossible({"--train is 0", "from 1 to 1000000"});
  options.train = 1;
  options.val = -1;
  expect_impossible({"--val is -1"});
}

TEST_F(ShapesFiles, OfExtremeSizesAreReadable) {
  options.train = options.val = 1;
  for (int size : {32, 4096}) {
    options.size = size;
    options.output = dir.path() / std::to_string(size);
    write_shapes(options);
    const CocoAnnotations read =
        read_coco_annotations(options.output / "annotations" / "instances_val.json");
    ASSERT_EQ(read.images().size(), 1u);
    EXPECT_GE(read.annotations().size(), 1u);
    EXPECT_GT(mask_area(read.mask(0)), size);
  }
}

}  // namespace
}  // namespace dtn::shapes
