#include "apps/predict/detections.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/predict/output_paths.h"
#include "dtn/core/check.h"
#include "dtn/io/image.h"
#include "io/file.h"
#include "io/image/image_encode.h"
#include "plot/draw_objects.h"
#include "temp_folder.h"
#include "texts.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;
using test::expect_contains;
using test::expect_error;
using test::TempFolder;

std::string png_of(int width, int height) {
  Image image;
  image.reshape(width, height, 3);
  std::fill(image.pixels.begin(), image.pixels.end(), std::uint8_t{90});
  std::vector<std::byte> png;
  encode_png(image, png);
  return {reinterpret_cast<const char*>(png.data()), png.size()};
}

Image read_picture(const fs::path& path) {
  return decode_image(read_file(path.string()), path.string());
}

class OutputPaths : public ::testing::Test {
 protected:
  fs::path in(const std::string& name) const { return folder_.path() / name; }
  // The outputs for files and folders, relative to the folder `out`.
  std::vector<std::string> outputs_of(const std::vector<std::string>& names,
                                      const std::string& out = "out") const {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(in(name).string());
    std::vector<std::string> found;
    for (const fs::path& path : output_paths(list_pictures(paths), in(out))) {
      found.push_back(path.lexically_relative(in(out)).string());
    }
    return found;
  }

  TempFolder folder_;
};

TEST_F(OutputPaths, KeepSubfolders) {
  for (const char* file : {"photos/b.jpg", "photos/x/c.jpeg", "photos/x/y/d.png", "e.bmp"}) {
    folder_.write(file, "-");
  }
  EXPECT_EQ(outputs_of({"photos", "e.bmp"}),
            (std::vector<std::string>{"b.png", "x/c.png", "x/y/d.png", "e.png"}));
  EXPECT_EQ(outputs_of({"photos/x/c.jpeg"}), (std::vector<std::string>{"c.png"}));
}

TEST_F(OutputPaths, DifferForFilesOfOneName) {
  for (const char* file : {"photos/a.jpg", "photos/a.png", "photos/b.jpg", "other/b.bmp"}) {
    folder_.write(file, "-");
  }
  EXPECT_EQ(outputs_of({"photos"}), (std::vector<std::string>{"a.jpg.png", "a.png.png", "b.png"}));
  EXPECT_EQ(outputs_of({"photos/b.jpg", "other/b.bmp"}),
            (std::vector<std::string>{"b.jpg.png", "b.bmp.png"}));
  EXPECT_EQ(outputs_of({"photos/b.jpg", "photos/b.jpg"}),
            (std::vector<std::string>{"b.png", "b.png"}))
      << "one image named twice";
}

TEST_F(OutputPaths, AreRefusedForTwoImages) {
  for (const char* file : {"x/a.jpg", "y/a.jpg"}) folder_.write(file, "-");
  expect_error<ConfigError>(
      [&] {
        outputs_of({"x", "y"});
      },
      {"x/a.jpg and ", "y/a.jpg would have the same picture", "a.jpg.png"});
}

TEST_F(OutputPaths, NeverReplaceInput) {
  folder_.write("photos/a.png", "-");
  folder_.write("photos/x/a.png", "-");
  const std::vector<std::string> parts{"photos/a.png would replace the image",
                                       "choose another folder"};
  expect_error<ConfigError>([&] { outputs_of({"photos"}, "photos"); }, parts);
  expect_error<ConfigError>([&] { outputs_of({"photos/a.png"}, "photos/x/.."); }, parts);
  fs::create_directory_symlink(in("photos"), in("link"));
  expect_error<ConfigError>([&] { outputs_of({"photos"}, "link"); }, parts);
  // The picture of one input would replace another input.
  folder_.write("deep/x/a.jpg", "-");
  const std::vector<std::string> two{"deep", "photos/x/a.png"};
  expect_error<ConfigError>([&] { outputs_of(two, "photos"); },
                            {"deep/x/a.jpg would replace the image ", "photos/x/a.png"});
  EXPECT_EQ(outputs_of({"deep"}, "photos3"), (std::vector<std::string>{"x/a.png"}));
}

class Detections : public ::testing::Test {
 protected:
  Detections() {
    folder_.write("in/a.png", png_of(600, 400));
    folder_.write("in/x/b.png", png_of(120, 90));
    inputs_ = list_pictures({in()});
    Rle mask;
    mask.height = 90, mask.width = 120, mask.runs = {0, 9000, 1800};
    objects_ = {{.label = 1, .score = 0.25, .box = {1, 2, 3, 4}},
                {.label = 0, .score = 0.5, .box = {10.1F, 20.2F, 60, 70}},
                {.label = 7, .score = 0.75F, .box = {40, 5, 110, 80}, .mask = mask}};
  }
  std::string in() const { return (folder_.path() / "in").string(); }
  std::string out() const { return (folder_.path() / "out").string(); }
  std::string printed(const DetectionFormat& format) const {
    DetectionWriter writer(format, inputs_, {"disc", "square"});
    testing::internal::CaptureStdout();
    writer.add(1, objects_);
    writer.add(0, {});
    writer.add_fault(0, "is damaged");
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  }

  TempFolder folder_;
  std::vector<InputPicture> inputs_;
  std::vector<PredictedObject> objects_;
};

TEST_F(Detections, ArePrinted) {
  EXPECT_EQ(printed({.text = true}),
            cat(in(), "/x/b.png\n",
                "   75.00 %  class 7  at (40, 5) to (110, 80)\n"
                "   50.00 %  disc  at (10, 20) to (60, 70)\n",
                in(), "/a.png\n", "  no object with a score of at least 0.3\n"));
  EXPECT_EQ(printed({}), "");
}

TEST_F(Detections, ArePrintedAsJson) {
  const std::string text = printed({.json = true, .score = 0.2});
  std::istringstream lines(text);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto json = nlohmann::ordered_json::parse(line);
  EXPECT_EQ(json["file"], in() + "/x/b.png");
  ASSERT_EQ(json["detections"].size(), 3U);
  EXPECT_EQ(json["detections"][0]["name"], "class 7");
  EXPECT_EQ(json["detections"][0]["mask"]["size"], (std::vector<int>{90, 120}));
  EXPECT_EQ(rle_of_text(90, 120, json["detections"][0]["mask"]["counts"].get<std::string>()),
            *objects_[2].mask);
  EXPECT_EQ(json["detections"][1].dump(),
            R"({"label":0,"name":"disc","score":0.5,"box":[10.1,20.2,60.0,70.0]})");
  EXPECT_EQ(json["detections"][2]["score"], 0.25);
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, cat(R"({"file":")", in(), R"(/a.png","detections":[]})"));
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, cat(R"({"file":")", in(), R"(/a.png","error":"is damaged"})"));
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(Detections, AreDrawn) {
  const std::string before = folder_.read("in/x/b.png");
  EXPECT_EQ(printed({.output = out()}), "");
  EXPECT_EQ(folder_.read("in/x/b.png"), before);
  const Image with = read_picture(out() + "/x/b.png");
  EXPECT_EQ(std::pair(with.width, with.height), std::pair(480, 360));
  const Image without = read_picture(out() + "/a.png");
  EXPECT_EQ(without.pixels, read_picture(in() + "/a.png").pixels) << "an image without objects";
  // The mask covers 100 columns. Its inner pixels are a mixture of the image and the colour.
  const plot::Rgb color = plot::object_color(7);
  const std::size_t pixel = (300 * 480 + 20) * 3;
  EXPECT_NEAR(with.pixels[pixel], 0.6 * 90 + 0.4 * color.r, 1);
  EXPECT_NEAR(with.pixels[pixel + 2], 0.6 * 90 + 0.4 * color.b, 1);
  EXPECT_EQ(with.pixels[(300 * 480 + 460) * 3], 90);
  // A higher score leaves the disc out.
  printed({.output = out(), .score = 0.6});
  EXPECT_NE(read_picture(out() + "/x/b.png").pixels, with.pixels);
}

TEST_F(Detections, NeedFolderToWriteTo) {
  expect_error<ConfigError>([&] { printed({.output = in()}); }, {"would replace the image"});
  folder_.write("file", "-");
  expect_error<Error>([&] { printed({.output = (folder_.path() / "file").string()}); },
                      {"cannot make the folder"});
}

}  // namespace
}  // namespace dtn::app
