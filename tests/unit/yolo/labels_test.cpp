// Data sets in YOLO's layout.
#include "data/yolo/labels.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "io/image/image_encode.h"
#include "temp_folder.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

class YoloLabels : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  void write_image(const std::string& name, int width, int height) const {
    Image image{width, height, 3, {}};
    image.pixels.resize(static_cast<std::size_t>(width * height * 3), 9);
    std::vector<std::byte> bytes;
    encode_png(image, bytes);
    write(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  CocoAnnotations read() const {
    return read_yolo_labels(root / "images", root / "labels", {"cat", "dog", "cow"});
  }

  const test::TempFolder folder_;
  const fs::path root = folder_.path();
};

template <class Read>
std::string error_of(const Read& read) {
  try {
    read();
  } catch (const DataError& e) {
    return e.what();
  }
  return "none";
}

std::string line_error(const std::string& text) {
  return error_of([&] { parse_yolo_labels(text, "a.txt", 3, 100, 50); });
}

TEST(YoloLines, ReadsBoxesAndPolygons) {
  const auto labels = parse_yolo_labels(
      "2 0.5 0.5 0.25 0.5\r\n\n \t\n0  0.1\t0.2 0.3 0.2 0.3 0.6 1e-1 .6\n1 1 1 0 0", "a.txt", 3,
      100, 50);
  ASSERT_EQ(labels.size(), 3u);
  EXPECT_EQ(labels[0].category, 2);
  EXPECT_EQ(labels[0].box, (std::array<double, 4>{37.5, 12.5, 25, 25}));
  EXPECT_EQ(labels[0].area, 625);
  EXPECT_TRUE(labels[0].corners.empty());
  EXPECT_EQ(labels[1].category, 0);
  EXPECT_EQ(labels[1].corners, (std::vector<Corner>{{50, 50}, {150, 50}, {150, 150}, {50, 150}}));
  EXPECT_NEAR(labels[1].box[0], 10, 1e-12);
  EXPECT_NEAR(labels[1].box[3], 20, 1e-12);
  EXPECT_NEAR(labels[1].area, 400, 1e-9);
  EXPECT_EQ(labels[2].box, (std::array<double, 4>{100, 50, 0, 0}));
  EXPECT_TRUE(parse_yolo_labels("", "a.txt", 3, 1, 1).empty());
}

TEST(YoloLines, RefusesOthers) {
  const std::string good = "0 0.5 0.5 0.1 0.1\n";
  EXPECT_EQ(line_error(good + "3 0.5 0.5 0.1 0.1"),
            "a.txt:2: the class must be a whole number from 0 to 2, not 3");
  for (const char* bad : {"-1", "0.0", "cat", "99999999999999999999", "\xff\x01"}) {
    EXPECT_NE(line_error(std::string(bad) + " 0.5 0.5 0.1 0.1").find("a.txt:1: the class"),
              std::string::npos)
        << bad;
  }
  for (const char* bad : {"1.1", "-0.1", "nan", "inf", "1e400", "x", "0.5,", "320"}) {
    EXPECT_NE(line_error(good + good + "0 0.5 0.5 0.1 " + bad).find("a.txt:3: coordinates are"),
              std::string::npos)
        << bad;
  }
  for (const char* bad :
       {"0", "0 0.5", "0 0.5 0.5 0.1", "0 0.1 0.1 0.1 0.1 0.1", "0 0.1 0.1 0.1 0.1 0.1 0.1 0.1"}) {
    EXPECT_NE(line_error(bad).find("values after the class"), std::string::npos) << bad;
  }
  EXPECT_EQ(line_error("0 1.0005 -0.0005 0.1 0.1"), "none") << "rounding of the writer";
}

TEST_F(YoloLabels, ReadsFolders) {
  write_image("images/b.png", 100, 50);
  write_image("images/a.png", 20, 40);
  write_image("images/sub/a.png", 8, 8);
  write("images/notes.md", "");
  write("labels/b.txt", "1 0.5 0.5 0.5 0.5\n0 0.1 0.2 0.3 0.2 0.3 0.6 0.1 0.6\n");
  write("labels/sub/a.txt", "2 0.5 0.5 1 1");
  write("labels/lost.txt", "this is not read");
  const CocoAnnotations all = read();
  ASSERT_EQ(all.images().size(), 3u);
  EXPECT_EQ(all.images()[0].file_name, "a.png");
  EXPECT_EQ(all.images()[1].file_name, "b.png");
  EXPECT_EQ(all.images()[1].width, 100);
  EXPECT_EQ(all.images()[1].height, 50);
  EXPECT_EQ(all.images()[2].file_name, "sub/a.png");
  ASSERT_EQ(all.categories().size(), 3u);
  EXPECT_EQ(all.categories()[2].name, "cow");
  ASSERT_EQ(all.annotations().size(), 3u);
  EXPECT_TRUE(all.of_image(0).empty());
  EXPECT_EQ(all.of_image(1).size(), 2u);
  EXPECT_EQ(all.annotations()[0].box, (std::array<double, 4>{25, 12.5, 50, 25}));
  EXPECT_EQ(all.annotations()[0].category, 1);
  EXPECT_EQ(mask_area(all.mask(1)), 20 * 20);
  EXPECT_EQ(all.annotations()[2].id, 3);
  EXPECT_EQ(all.annotations()[2].image, 2);
}

TEST_F(YoloLabels, SaysWhichFileIsWrong) {
  EXPECT_NE(error_of([&] { read(); }).find("images"), std::string::npos);
  write_image("images/a.png", 10, 10);
  EXPECT_NE(error_of([&] { read(); }).find("labels/a.txt"), std::string::npos)
      << "no label file at all";
  write("labels/a.txt", "0 0.5 0.5 0.1 0.1\n7 0.5 0.5 0.1 0.1\n");
  EXPECT_NE(error_of([&] { read(); }).find("labels/a.txt:2: the class"), std::string::npos);
  write("labels/a.txt", "");
  EXPECT_EQ(error_of([&] { read(); }), "none");
  fs::copy_file(root / "images/a.png", root / "images/a.PNG");
  EXPECT_NE(error_of([&] { read(); }).find("label file of two images"), std::string::npos);
  fs::remove(root / "images/a.PNG");
  write("images/b.png", "no image");
  EXPECT_NE(error_of([&] { read(); }).find("images/b.png"), std::string::npos);
}

TEST_F(YoloLabels, ReadsLargeHeaders) {
  // The size of a JPEG or PNG stands at the beginning, but a file may be shorter or longer than
  // what is read first.
  write_image("images/large.png", 700, 300);
  write("labels/large.txt", "");
  EXPECT_EQ(read().images()[0].width, 700);
}

TEST_F(YoloLabels, ReadsNames) {
  using Names = std::vector<std::string>;
  write("data.yaml", "path: ../x\ntrain: images/train\nnc: 2\nnames: [a cat, \"dog\"]\n");
  EXPECT_EQ(read_yolo_names(root / "data.yaml"), (Names{"a cat", "dog"}));
  write("map.yml", "names:\n  1: dog\n  0: cat\n  2: no\n");
  EXPECT_EQ(read_yolo_names(root / "map.yml"), (Names{"cat", "dog", "no"}));
  write("classes.txt", "cat\r\n\n  big dog \n");
  EXPECT_EQ(read_yolo_names(root / "classes.txt"), (Names{"cat", "big dog"}));

  const std::pair<const char*, const char*> wrong[] = {
      {"nc: 2\n", "has no list `names`"},
      {"names: cat\n", "names must be a list or a map"},
      {"names: [[a]]\n", "a name must be a text"},
      {"names: []\n", "has no names"},
      {"kpt_shape: [17, 2]\nnames: [a]\n", "bad.yaml:1:12: the labels have keypoints"},
      {"names: {0: a, 2: b}\n", "numbered from 0 to 1"},
      {"names: {0: a, 0: b}\n", "bad.yaml:1"},
      {"names: [a\n", "not valid YAML"}};
  for (const auto& [text, what] : wrong) {
    write("bad.yaml", text);
    const std::string error = error_of([&] { read_yolo_names(root / "bad.yaml"); });
    EXPECT_NE(error.find(what), std::string::npos) << error;
    EXPECT_NE(error.find("bad.yaml"), std::string::npos) << error;
  }
}

TEST_F(YoloLabels, FindsNames) {
  fs::create_directories(root / "labels/train");
  EXPECT_NE(error_of([&] { find_yolo_names(root / "labels/train"); }).find("classes.txt"),
            std::string::npos);
  write("data.yaml", "names: [a]");
  EXPECT_EQ(find_yolo_names(root / "labels/train"), fs::absolute(root / "data.yaml"));
  EXPECT_EQ(find_yolo_names(root / "labels/train/"), fs::absolute(root / "data.yaml"));
  write("labels/train/classes.txt", "a");
  EXPECT_EQ(find_yolo_names(root / "labels/train"),
            fs::absolute(root / "labels/train/classes.txt"));
}

}  // namespace
}  // namespace dtn
