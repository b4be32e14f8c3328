#include "apps/report/detections_figure.h"

#include <gtest/gtest.h>

#include <array>

#include "apps/report/run_figures.h"
#include "data/coco/rle.h"
#include "io/image/image_encode.h"
#include "temp_folder.h"
#include "texts.h"
#include "xml_check.h"

namespace dtn {
namespace {

using test::expect_contains;
using test::TempFolder;

std::string png_of(int width, int height) {
  Image image;
  image.reshape(width, height, 3);
  std::fill(image.pixels.begin(), image.pixels.end(), std::uint8_t{90});
  std::vector<std::byte> png;
  encode_png(image, png);
  return {reinterpret_cast<const char*>(png.data()), png.size()};
}

std::string mask_text(std::int64_t height, std::int64_t width) {
  const std::array<std::int64_t, 3> runs{height * width / 4, height * width / 2,
                                         height * width - height * width / 4 * 3};
  return rle_text(rle_of_runs(height, width, runs));
}

PrecisionCurves example_curves(const std::string& name) {
  PrecisionCurves curves{.name = name, .ap = 0.25};
  for (std::size_t t = 0; t < PrecisionCurves::kThresholds; ++t) {
    for (std::size_t r = 0; r <= 50; ++r) {
      curves.precision[t][r] = 0.9 - 0.05 * static_cast<double>(t);
    }
  }
  return curves;
}

// Two images of 200 x 100 pixels; the picture of the first is half as large.
DetectionsFile example_file() {
  DetectionsFile file{.step = 1200, .classes = {"disc", "<square>"}};
  for (const std::int64_t index : {3, 7}) {
    DetectionExample image{
        .index = index,
        .width = 200,
        .height = 100,
        .truths = {{.box = {20, 20, 80, 80}, .label = 0, .mask = mask_text(100, 200)},
                   {.box = {100, 0, 200, 50}, .label = 1, .crowd = true}},
        .detections = {{.box = {22, 18, 83, 79}, .label = 0, .score = 0.9}}};
    file.images.push_back({cat(index, " <a>.jpg"), cat(index, ".png"), std::move(image)});
  }
  file.curves = {example_curves("bbox"), example_curves("segm")};
  return file;
}

class DetectionsOfRun : public ::testing::Test {
 protected:
  DetectionsOfRun() {
    folder_.write("detections/3.png", png_of(100, 50));
    folder_.write("detections/7.png", png_of(200, 100));
  }
  void write(const DetectionsFile& file) { folder_.write(kDetectionsFile, detections_json(file)); }

  TempFolder folder_;
};

TEST_F(DetectionsOfRun, StandBesideTruth) {
  const plot::Gallery gallery = detections_gallery(example_file(), folder_.path() / "detections");
  ASSERT_EQ(gallery.rows.size(), 2U);
  EXPECT_TRUE(gallery.large);
  for (const auto& row : gallery.rows) {
    ASSERT_EQ(row.size(), 2U);
    EXPECT_EQ(row[0].text, "Truth: 1 object, 1 group");
    EXPECT_EQ(row[1].text, "1 detection");
    EXPECT_NE(row[0].png, row[1].png);
    for (const plot::GalleryPicture& picture : row) {
      const Image image = decode_image(std::as_bytes(std::span(picture.png)), "picture");
      EXPECT_GE(image.width, 480);
    }
  }
  EXPECT_EQ(gallery.rows[1][0].note, "7 <a>.jpg");
}

// Boxes and masks are scaled to a picture that is smaller than the image: the picture of half the
// size is enlarged to the same drawing.
TEST_F(DetectionsOfRun, FitSmallerPicture) {
  DetectionsFile file = example_file();
  for (DetectionsFile::Shown& shown : file.images) shown.image.index = 0;
  folder_.write("detections/7.png", png_of(500, 250));
  folder_.write("detections/3.png", png_of(250, 125));  // enlarged twice
  const plot::Gallery gallery = detections_gallery(file, folder_.path() / "detections");
  ASSERT_EQ(gallery.rows.size(), 2U);
  for (const std::size_t column : {0U, 1U}) {
    EXPECT_EQ(gallery.rows[0][column].png, gallery.rows[1][column].png) << column;
  }
}

TEST_F(DetectionsOfRun, ShowInReport) {
  folder_.write("metrics.jsonl", "{\"step\":10,\"epoch\":1,\"loss\":2}\n");
  folder_.write("config.yaml", "name: run\n");
  write(example_file());
  write_run_report(folder_.path());
  const std::string page = folder_.read("report.html");
  expect_contains(page, "<h2>Detections</h2>");
  expect_contains(page, "Precision and recall of boxes");
  expect_contains(page, "Precision and recall of masks");
  expect_contains(page, "<ul class=\"large\">");
  expect_contains(page, "src=\"data:image/jpeg;base64,/9j/");
  expect_contains(page, "after step 1200");
  expect_contains(page, "3 &lt;a&gt;.jpg");
  std::filesystem::remove(folder_.path() / kDetectionsFile);
  write_run_report(folder_.path());
  EXPECT_EQ(folder_.read("report.html").find("Detections"), std::string::npos);
}

TEST_F(DetectionsOfRun, LeaveOutDamagedFiles) {
  // The numbers of pictures and of figures in a report.
  const auto shown = [&] {
    std::pair<std::size_t, std::size_t> counts{0, 0};
    for (const plot::Section& section : detections_sections(folder_.path())) {
      for (const plot::Gallery& gallery : section.galleries) counts.first += gallery.rows.size();
      counts.second += section.figures.size();
    }
    return counts;
  };
  using Counts = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(shown(), Counts(0, 0)) << "no file";
  DetectionsFile file = example_file();
  write(file);
  EXPECT_EQ(shown(), Counts(2, 2));
  folder_.write("detections/3.png", "not a picture");
  EXPECT_EQ(shown(), Counts(1, 2));

  file.images[1].image.truths[0].mask = "~~~";
  write(file);
  EXPECT_EQ(shown(), Counts(0, 2)) << "a damaged mask, and no other picture";
  file.images[1].image.truths[0].mask = mask_text(90, 200);
  write(file);
  EXPECT_EQ(shown(), Counts(0, 2)) << "a mask of another size";
  file.images[1].picture = "8.png";
  write(file);
  EXPECT_EQ(shown(), Counts(0, 2)) << "no such picture";

  file.images[0].picture = "../3.png";
  write(file);
  EXPECT_EQ(shown(), Counts(0, 0)) << "a picture elsewhere";
  for (const char* text : {"{", "", "[]", "null"}) {
    folder_.write(kDetectionsFile, text);
    EXPECT_EQ(shown(), Counts(0, 0)) << text;
  }
}

TEST(PrecisionFigure, HasThresholdsAndMean) {
  const auto figure = precision_figure(example_curves("bbox"));
  ASSERT_TRUE(figure);
  EXPECT_EQ(xml_fault(figure->svg), "");
  // 51 of 101 recalls are reached.
  expect_contains(figure->svg, "IoU 0.50: AP 45.4 %");
  expect_contains(figure->svg, "IoU 0.75: AP 32.8 %");
  expect_contains(figure->svg, "IoU 0.95: AP 22.7 %");
  expect_contains(figure->svg, "mean of 0.50 to 0.95: AP 34.1 %");
  ASSERT_EQ(figure->table.rows.size(), 11U);
  EXPECT_EQ(figure->table.rows[5],
            (std::vector<std::string>{"0.75", "32.82", "65.00", "65.00", "0.00"}));
  EXPECT_EQ(figure->table.rows[10],
            (std::vector<std::string>{"mean", "34.08", "67.50", "67.50", "0.00"}));
  EXPECT_NE(figure->phone_svg.find("width=\"350\""), std::string::npos);
}

TEST(PrecisionFigure, NeedsTruths) {
  PrecisionCurves none{.name = "bbox"};
  for (auto& row : none.precision) row.fill(-1);
  EXPECT_FALSE(precision_figure(none));
}

}  // namespace
}  // namespace dtn
