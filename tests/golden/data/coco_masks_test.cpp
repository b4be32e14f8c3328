// Masks against pycocotools', bit for bit. make_coco_mask_fixtures.py writes the expected values.
#include <numeric>

#include "data/coco/polygon.h"
#include "dtn/core/check.h"
#include "golden/data/fixtures.h"

namespace dtn::golden {
namespace {

using Polygons = std::vector<std::vector<double>>;

Polygons read_polygons(std::istream& in) {
  std::size_t count = 0, values = 0;
  in >> count;
  Polygons polygons(count);
  for (std::vector<double>& polygon : polygons) {
    in >> values;
    polygon.resize(values);
    for (double& value : polygon) in >> value;
  }
  return polygons;
}

void check_bitmap(const Rle& rle) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(rle.height * rle.width), 7);
  write_mask(rle, mask.data());
  EXPECT_EQ(std::accumulate(mask.begin(), mask.end(), std::int64_t{0}), mask_area(rle));
  EXPECT_EQ(rle_of_mask(mask.data(), rle.height, rle.width), rle);
}

void check_polygons(std::istream& in) {
  std::int64_t height = 0, width = 0, area = 0;
  PixelBox box;
  std::string counts;
  in >> height >> width;
  const Polygons polygons = read_polygons(in);
  in >> counts >> area >> box.x >> box.y >> box.width >> box.height;
  const Rle rle = rasterize(polygons, height, width);
  EXPECT_EQ(rle_text(rle), counts);
  EXPECT_EQ(rle_of_text(height, width, counts), rle);
  EXPECT_EQ(mask_area(rle), area);
  EXPECT_EQ(bounds_of(rle), box);
  check_bitmap(rle);
}

void check_pair(std::istream& in) {
  std::int64_t height = 0, width = 0, shared = 0;
  std::string a, b, both;
  in >> height >> width >> a >> b >> both >> shared;
  const std::vector<Rle> masks = {rle_of_text(height, width, a), rle_of_text(height, width, b)};
  EXPECT_EQ(rle_text(masks[0]), a);
  check_bitmap(masks[1]);
  EXPECT_EQ(rle_text(union_of(masks)), both);
  EXPECT_EQ(intersection_area(masks[0], masks[1]), shared);
}

TEST(CocoMasks, EqualPycocotools) {
  std::ifstream in = open_table("coco_masks.txt");
  std::string kind;
  int polygons = 0, pairs = 0;
  while (in >> kind) {
    SCOPED_TRACE(cat(kind, " of line ", polygons + pairs + 1));
    kind == "polygon" ? check_polygons(in) : check_pair(in);
    ASSERT_TRUE(in.good());
    ++(kind == "polygon" ? polygons : pairs);
  }
  EXPECT_EQ(polygons, 160);
  EXPECT_EQ(pairs, 60);
}

}  // namespace
}  // namespace dtn::golden
