// Annotation files: fields, ids, segmentations, and damaged files.
#include "data/coco/annotations.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "coco_text.h"
#include "temp_folder.h"

namespace dtn {
namespace {

using namespace dtn::test;
using coco::SegmentationKind;
using Indices = std::vector<std::int32_t>;

Indices indices(std::span<const std::int32_t> of) { return {of.begin(), of.end()}; }

TEST(CocoAnnotations, ReadsFieldsAndSkipsOthers) {
  const CocoAnnotations all =
      annotations_of(file_with(annotation(R"("iscrowd": 1, "keypoints": [1, [2]], "score": "x")")));
  ASSERT_EQ(all.images().size(), 2u);
  EXPECT_EQ(all.images()[0].id, 7);
  EXPECT_EQ(all.images()[0].file_name, "b.jpg");
  EXPECT_EQ(all.images()[0].width, 10);
  EXPECT_EQ(all.images()[0].height, 4);
  ASSERT_EQ(all.categories().size(), 2u);
  EXPECT_EQ(all.categories()[0].name, "person") << "sorted by id";
  EXPECT_EQ(all.find_category(90), 1);
  EXPECT_EQ(all.find_category(2), -1);
  EXPECT_EQ(all.find_image(5), 1);
  EXPECT_EQ(all.find_image(6), -1);
  ASSERT_EQ(all.annotations().size(), 1u);
  const CocoAnnotation& a = all.annotations()[0];
  EXPECT_EQ(a.id, 3);
  EXPECT_EQ(a.image, 0);
  EXPECT_EQ(a.category, 1);
  EXPECT_EQ(a.box, (std::array<double, 4>{1, 0, 3.5, 2}));
  EXPECT_EQ(a.area, 6.25);
  EXPECT_TRUE(a.crowd);
  EXPECT_FALSE(a.ignore);
  EXPECT_EQ(a.segmentation, SegmentationKind::kNone);
}

TEST(CocoAnnotations, ListsMayComeInAnyOrder) {
  const CocoAnnotations all = annotations_of(
      R"({"categories": [{"name": "c", "id": 4}], "annotations": [{"bbox": [0, 0, 1, 1], "area": 1,
          "category_id": 4, "image_id": 1, "id": 2}],
          "images": [{"height": 2, "width": 3, "file_name": "x", "id": 1}]})");
  EXPECT_EQ(all.annotations()[0].category, 0);
  EXPECT_EQ(indices(all.of_image(0)), Indices{0});
}

TEST(CocoAnnotations, GroupsByImageInFileOrder) {
  std::string list;
  for (int i = 0; i < 6; ++i) {
    list += (i > 0 ? "," : "") + cat(R"({"id": )", 100 - i, R"(, "image_id": )", i % 3 ? 5 : 7,
                                     R"(, "category_id": 1, "bbox": [0, 0, 1, 1], "area": 1})");
  }
  const CocoAnnotations all = annotations_of(file_with(list));
  EXPECT_EQ(indices(all.of_image(0)), (Indices{0, 3}));
  EXPECT_EQ(indices(all.of_image(1)), (Indices{1, 2, 4, 5}));
}

TEST(CocoAnnotations, KeepsLargeIds) {
  const CocoAnnotations all =
      annotations_of(file_with(annotation("", "9223372036854775807") + "," +
                               annotation("", "-9007199254740993") + "," + annotation("", "12.0")));
  EXPECT_EQ(all.annotations()[0].id, INT64_MAX);
  EXPECT_EQ(all.annotations()[1].id, -9007199254740993);
  EXPECT_EQ(all.annotations()[2].id, 12) << "some writers make every number a float";
  EXPECT_TRUE(has_parts(annotation_error(file_with(annotation("", "9223372036854775808"))),
                        {"id must be a whole number, not 9.223372036854775"}));
}

TEST(CocoAnnotations, ReadsSegmentations) {
  const CocoAnnotations all = annotations_of(file_with(
      annotation(R"("segmentation": [[1, 1, 4, 1, 4, 3, 1, 3], [6, 0, 9, 0, 9, 4, 6, 4]])", "1") +
      "," + annotation(R"("segmentation": {"size": [4, 10], "counts": [5, 2, 33]})", "2") + "," +
      annotation(R"("segmentation": {"counts": "52Q1", "size": [4, 10]})", "3") + "," +
      annotation(R"("segmentation": [])", "4") + "," + annotation(R"("segmentation": null)", "5") +
      "," + annotation(R"("segmentation": [[0, 0, 2, 0, 2, 4, 0, 4]])", "6")));
  EXPECT_EQ(all.annotations()[0].segmentation, SegmentationKind::kPolygons);
  EXPECT_EQ(all.mask(0), rasterize(std::vector<std::vector<double>>{{1, 1, 4, 1, 4, 3, 1, 3},
                                                                    {6, 0, 9, 0, 9, 4, 6, 4}},
                                   4, 10));
  EXPECT_EQ(mask_area(all.mask(0)), 3 * 2 + 3 * 4);
  EXPECT_EQ(all.mask(1), (Rle{4, 10, {5, 2, 33}}));
  EXPECT_EQ(all.mask(2), (Rle{4, 10, {5, 2, 33}}));
  EXPECT_EQ(mask_area(all.mask(5)), 8);
  for (const std::size_t i : {3u, 4u}) {
    EXPECT_EQ(all.annotations()[i].segmentation, SegmentationKind::kNone);
    EXPECT_TRUE(has_parts(data_error([&] { all.mask(i); }), {"a.json", "has no segmentation"}));
  }
}

TEST(CocoAnnotations, ChecksMasks) {
  const auto error = [](const std::string& segmentation) {
    return annotation_error(file_with(annotation(R"("segmentation": )" + segmentation)));
  };
  EXPECT_TRUE(has_parts(error(R"({"size": [10, 4], "counts": [40]})"),
                        {"a.json: at byte ", "annotation id 3", "10 x 4", "image 7 has 4 x 10"}));
  EXPECT_TRUE(has_parts(error(R"({"size": [4, 10], "counts": [41]})"), {"(id 3)", "add up to"}));
  EXPECT_TRUE(has_parts(error(R"({"size": [4, 10], "counts": "\u0000"})"), {"(id 3)", "code 0"}));
  EXPECT_TRUE(has_parts(error(R"({"size": [4, 10], "counts": [-1, 41]})"), {"below 0"}));
  EXPECT_TRUE(has_parts(error(R"({"size": [4, 10], "counts": [1.5, 38.5]})"), {"whole numbers"}));
  EXPECT_TRUE(has_parts(error(R"({"size": [4, 10, 3], "counts": [40]})"), {"[height, width]"}));
  EXPECT_TRUE(has_parts(error(R"({"size": [4], "counts": [40]})"), {"[height, width]"}));
  EXPECT_TRUE(has_parts(error(R"({"size": [-4, -10], "counts": [40]})"), {"a mask of -4 x -10"}));
  EXPECT_TRUE(has_parts(error(R"({"counts": [40]})"), {"a size and counts"}));
  EXPECT_TRUE(has_parts(error(R"({"size": [4, 10]})"), {"a size and counts"}));
  EXPECT_TRUE(has_parts(error(R"({"size": [4, 10], "size": [4, 10], "counts": [40]})"), {"twice"}));
  EXPECT_TRUE(has_parts(error(R"([[1, 2, 3]])"), {"(id 3)", "odd number of coordinates"}));
  EXPECT_TRUE(has_parts(error(R"([[1, 2, 1e300, 4]])"), {"(id 3)", "far from any image"}));
  EXPECT_TRUE(has_parts(error(R"([1, 2, 3, 4])"), {"list of polygons"}));
  EXPECT_TRUE(has_parts(error(R"([["1", 2]])"), {"a polygon must be a list of numbers"}));
  EXPECT_TRUE(has_parts(error(R"("text")"), {"list of polygons", "not the text 'text'"}));
}

TEST(CocoAnnotations, SaysWhatIsMissing) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"image_id": 7, "category_id": 1, "bbox": [0, 0, 1, 1], "area": 1})", "lacks id"},
      {R"({"id": 3, "category_id": 1, "bbox": [0, 0, 1, 1], "area": 1})", "lacks image_id"},
      {R"({"id": 3, "image_id": 7, "bbox": [0, 0, 1, 1], "area": 1})", "lacks category_id"},
      {R"({"id": 3, "image_id": 7, "category_id": 1, "area": 1})", "lacks bbox"},
      {R"({"id": 3, "image_id": 7, "category_id": 1, "bbox": [], "area": 1})", "lacks bbox"},
      {R"({"id": 3, "image_id": 7, "category_id": 1, "bbox": [0, 0, 1, 1]})", "lacks area"},
      {R"({"id": 3, "image_id": 7, "category_id": 1, "bbox": [0, 0, 1, 1], "area": null})",
       "lacks area"}};
  for (const auto& [json, what] : cases) {
    EXPECT_TRUE(has_parts(annotation_error(file_with(json)),
                          {"a.json: at byte 2", "annotations[0]", what, "; add it"}));
  }
  EXPECT_TRUE(has_parts(annotation_error(R"({"images": [{"id": 1, "width": 3, "height": 3}]})"),
                        {"images[0] (id 1)", "lacks file_name"}));
  EXPECT_TRUE(has_parts(annotation_error(R"({"images": [], "annotations": []})"),
                        {"a.json: has no list 'categories'"}));
}

TEST(CocoAnnotations, NamesThePositionOfARecord) {
  const std::string json = file_with(annotation("", "4") + ", " + annotation(R"("bbox": 3)"));
  const std::size_t second = json.find(R"({"id": 3)");
  EXPECT_TRUE(has_parts(annotation_error(json), {"annotations[1] (id 3)", "bbox twice"}));
  const std::string lacking = file_with(annotation("", "4") + R"(, {"id": 3})");
  ASSERT_EQ(lacking.find(R"({"id": 3)"), second);
  EXPECT_TRUE(has_parts(annotation_error(lacking), {cat("at byte ", second, ": ").c_str()}));
}

TEST(CocoAnnotations, RefusesWrongKinds) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("id": "3")", "id must be a whole number, not the text '3'"},
      {R"("id": 3.5)", "id must be a whole number, not 3.5"},
      {R"("id": [3])", "id must be a whole number, not a list"},
      {R"("id": true)", "id must be a whole number, not true"},
      {R"("bbox": [1, 2, 3])", "bbox must be 4 numbers"},
      {R"("bbox": [1, 2, 3, 4, 5])", "bbox must be 4 numbers"},
      {R"("bbox": [1, 2, 3, null])", "bbox must be 4 numbers [x, y, width, height], not null"},
      {R"("bbox": {"x": 1})", "bbox must be 4 numbers [x, y, width, height], not an object"},
      {R"("bbox": 7)", "bbox must be 4 numbers [x, y, width, height], not 7"},
      {R"("area": "6")", "area must be a number"},
      {R"("iscrowd": "no")", "iscrowd must be 0 or 1"},
      {R"("ignore": [])", "ignore must be 0 or 1, not a list"}};
  for (const auto& [field, what] : cases) {
    EXPECT_TRUE(has_parts(annotation_error(file_with(cat("{", field, "}"))), {what}));
  }
  EXPECT_TRUE(has_parts(annotation_error("[]"), {"an object of lists, not a list"}));
  EXPECT_TRUE(has_parts(annotation_error("3"), {"an object of lists, not 3"}));
  EXPECT_TRUE(has_parts(annotation_error(R"({"images": {}})"), {"'images' must be a list"}));
  EXPECT_TRUE(has_parts(annotation_error(R"({"images": [3]})"), {"'images' must hold objects"}));
  EXPECT_TRUE(has_parts(annotation_error(R"({"images": [], "images": []})"), {"appears twice"}));
}

TEST(CocoAnnotations, RefusesIdsThatDoNotMatch) {
  EXPECT_TRUE(has_parts(annotation_error(file_with(annotation() + "," + annotation())),
                        {"annotation id 3 appears twice"}));
  EXPECT_TRUE(has_parts(
      annotation_error(file_with(
          R"({"id": 3, "image_id": 8, "category_id": 1, "bbox": [0, 0, 1, 1], "area": 1})")),
      {"annotation id 3 is of image 8", "not in the list"}));
  const std::string image = R"({"id": 1, "file_name": "x", "width": 3, "height": 3})";
  EXPECT_TRUE(has_parts(annotation_error(cat(R"({"annotations": [], "categories": [], "images": [)",
                                             image, ",", image, "]}")),
                        {"image id 1 appears twice"}));
  EXPECT_TRUE(has_parts(annotation_error(R"({"annotations": [], "images": [], "categories": [
                          {"id": 1, "name": "a"}, {"id": 1, "name": "b"}]})"),
                        {"category id 1 appears twice"}));
}

TEST(CocoAnnotations, RefusesImpossibleImages) {
  for (const char* size : {R"("width": 0, "height": 3)", R"("width": 3, "height": -1)",
                           R"("width": 4294967296, "height": 4294967296)"}) {
    EXPECT_TRUE(
        has_parts(annotation_error(cat(R"({"images": [{"id": 1, "file_name": "x", )", size, "}]}")),
                  {"images[0] (id 1)", "an image of"}));
  }
  EXPECT_TRUE(has_parts(
      annotation_error(R"({"images": [{"id": 1, "file_name": "", "width": 1, "height": 1}]})"),
      {"file_name is empty"}));
}

TEST(CocoAnnotations, RefusesDamagedJson) {
  const std::string whole = file_with(annotation());
  EXPECT_EQ(annotation_error(whole), "none");
  EXPECT_TRUE(has_parts(annotation_error(whole.substr(0, whole.find("6.25"))),
                        {"a.json: at byte ", "annotations[0] (id 3)", "cut short"}));
  EXPECT_TRUE(has_parts(annotation_error(whole.substr(0, whole.size() - 1)), {"cut short"}));
  EXPECT_TRUE(has_parts(annotation_error(whole + "x"),
                        {cat("at byte ", whole.size() + 1).c_str(), "not valid JSON"}));
  EXPECT_TRUE(has_parts(annotation_error(""), {"the file is empty"}));
  EXPECT_TRUE(has_parts(annotation_error(whole + std::string(1, '\0')),
                        {cat("byte ", whole.size(), " is 0").c_str()}));
  for (const char* number : {"NaN", "Infinity", "-Infinity"}) {
    EXPECT_TRUE(
        has_parts(annotation_error(file_with(R"({"id": 3, "area": )" + std::string(number) + "}")),
                  {"annotations[0] (id 3)", "JSON has no NaN"}));
  }
  EXPECT_TRUE(has_parts(annotation_error(file_with(R"({"id": 3, "area": 1e999})")),
                        {"annotations[0] (id 3)", "1e999", "too large"}));
  EXPECT_TRUE(has_parts(annotation_error("{\"a\": \"\xff\"}"), {"not valid JSON"}));
}

TEST(CocoAnnotations, RefusesDeepNesting) {
  const auto nested = [](std::size_t levels) {
    return file_with(annotation()).substr(0, 1) + R"("deep": )" + std::string(levels, '[') +
           std::string(levels, ']') + ", " + file_with(annotation()).substr(1);
  };
  EXPECT_EQ(annotation_error(nested(63)), "none");
  EXPECT_TRUE(has_parts(annotation_error(nested(64)), {"nested deeper than 64 levels"}));
  EXPECT_TRUE(has_parts(annotation_error(std::string(1'000'000, '[')), {"not a list"}));
  EXPECT_TRUE(has_parts(annotation_error(nested(1'000'000)), {"nested deeper than 64 levels"}));
}

TEST(CocoAnnotations, ReadsFilesPieceByPiece) {
  // Larger than a block of the reader.
  std::string list;
  for (int i = 0; i < 20'000; ++i) {
    list += (i > 0 ? "," : "") + annotation(cat(R"("segmentation": [[0, 0, )", i % 10, ".5, 0, ",
                                                i % 10, ".5, 4, 0, 4]]"),
                                            std::to_string(i));
  }
  ASSERT_GT(list.size(), std::size_t{2} << 20);
  const TempFolder folder;
  const std::string path = folder.write("annotations.json", file_with(list));
  const CocoAnnotations all = read_coco_annotations(path);
  std::filesystem::remove(path);
  EXPECT_EQ(all.name(), path);
  ASSERT_EQ(all.annotations().size(), 20'000u);
  for (std::size_t i = 0; i < 20'000; i += 7) {
    ASSERT_EQ(all.annotations()[i].id, static_cast<std::int64_t>(i));
    ASSERT_EQ(mask_area(all.mask(i)), static_cast<std::int64_t>(4 * (i % 10 + 1))) << i;
  }
  EXPECT_THROW(read_coco_annotations(path), DataError) << "no such file";
}

}  // namespace
}  // namespace dtn
