// The rules that leave images and truths out of training.
#include "data/coco/training_truths.h"

#include "coco_text.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Indices = std::vector<std::int32_t>;

std::string image(int id, int width = 40, int height = 40) {
  return cat(R"({"id": )", id, R"(, "file_name": "f", "width": )", width, R"(, "height": )", height,
             "}");
}

CocoAnnotations read(const std::string& images, const std::string& annotations) {
  return annotations_of(
      cat(R"({"images": [)", images, R"(], "annotations": [)", annotations,
          R"(], "categories": [{"id": 2, "name": "a"}, {"id": 9, "name": "b"}]})"));
}

std::string truth(int id, int image, const char* box = "[1, 1, 5, 5]", int category = 9,
                  const char* more = R"("area": 25)") {
  return cat(R"({"id": )", id, R"(, "image_id": )", image, R"(, "category_id": )", category,
             R"(, "bbox": )", box, ", ", more, "}");
}

TEST(TrainingTruths, KeepsTruthsImageByImage) {
  const CocoAnnotations all =
      read(image(1) + "," + image(2), truth(1, 2) + "," + truth(2, 1) + "," + truth(3, 2));
  const TrainingTruths truths = training_truths(all);
  EXPECT_EQ(truths.images, (Indices{0, 1}));
  EXPECT_EQ(truths.annotations, (Indices{1, 0, 2}));
  EXPECT_EQ(truths.of(0).size(), 1u);
  EXPECT_EQ(truths.of(1).size(), 2u);
  EXPECT_EQ(description_of(truths), "2 images with 3 truths");
}

TEST(TrainingTruths, LeavesOutImages) {
  const CocoAnnotations all = read(
      image(1) + "," + image(2, 31, 90) + "," + image(3, 32, 32) + "," + image(4) + "," + image(5),
      truth(2, 2) + "," + truth(3, 3) + "," + truth(4, 4, "[1, 1, 5, 5]", 7) + "," +
          truth(5, 5, "[1, 1, 5, 5]", 2, R"("area": 25, "iscrowd": 1)"));
  const TrainingTruths truths = training_truths(all);
  EXPECT_EQ(truths.images, (Indices{2, 4})) << "a crowd counts";
  EXPECT_EQ(truths.images_without_truths, 2) << "one has an unknown category only";
  EXPECT_EQ(truths.small_images, 1);
  EXPECT_EQ(description_of(truths),
            "2 images with 1 truth; left out: 2 images without truths, 1 image with a side under "
            "32 pixels, 1 crowd");
}

TEST(TrainingTruths, LeavesOutTruthsForOneReasonEach) {
  const char* kBox = "[1, 1, 5, 5]";
  const std::string list[] = {truth(1, 1),
                              truth(2, 1, kBox, 9, R"("area": 25, "ignore": 1)"),
                              truth(3, 1, "[40, 0, 5, 5]"),
                              truth(4, 1, "[-5, 3, 5, 5]"),
                              truth(5, 1, "[3, -5, 5, 4.9]"),
                              truth(6, 1, "[3, 39.5, 5, 5]"),  // stays
                              truth(7, 1, kBox, 9, R"("area": 0)"),
                              truth(8, 1, kBox, 9, R"("area": -1)"),
                              truth(9, 1, "[1, 1, 0.99, 5]"),
                              truth(10, 1, "[1, 1, 5, 0.5]"),
                              truth(11, 1, "[1, 1, 1, 1]"),  // stays
                              truth(12, 1, kBox, 5),
                              truth(13, 1, kBox, 2, R"("area": 25, "iscrowd": 1)"),
                              truth(14, 1, "[1, 1, 0, 5]"),
                              truth(15, 1, kBox, 5, R"("area": 0, "iscrowd": 1, "ignore": 1)")};
  std::string joined;
  for (const std::string& one : list) joined += (joined.empty() ? "" : ",") + one;
  const TrainingTruths truths = training_truths(read(image(1), joined));
  EXPECT_EQ(truths.annotations, (Indices{0, 5, 10}));
  EXPECT_EQ(truths.ignored, 2);
  EXPECT_EQ(truths.outside, 4) << "a box without width overlaps nothing";
  EXPECT_EQ(truths.without_area, 2);
  EXPECT_EQ(truths.thin, 2);
  EXPECT_EQ(truths.unknown_category, 1);
  EXPECT_EQ(truths.crowds, 1);
}

}  // namespace
}  // namespace dtn
