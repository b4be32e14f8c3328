// The crop of diffusion models against Pillow, pixel for pixel.
#include "data/sample/center_crop.h"

#include "golden/data/fixtures.h"

namespace dtn::golden {
namespace {

void check_crops(const std::string& file, Resample order) {
  std::ifstream in = open_table(file);
  CenterCropWorkspace workspace;
  std::uint32_t seed = 0, want = 0;
  int width = 0, height = 0, channels = 0, size = 0, count = 0;
  while (in >> seed >> width >> height >> channels >> size >> want) {
    const Image image = procedural_image(seed, width, height, channels);
    const Image& crop = center_crop(image, size, {Interpolation::kBicubic, order}, workspace);
    EXPECT_EQ(crop.width, size);
    EXPECT_EQ(crop.height, size);
    EXPECT_EQ(crc(crop), want) << file << ", line " << count + 1 << ": " << width << " x " << height
                               << " to " << size;
    EXPECT_EQ(&crop == &image, width == size && height == size)
        << "only a whole image is not copied";
    ++count;
  }
  EXPECT_EQ(count, 60);
}

TEST(CenterCrop, EqualsPillow12) { check_crops("center_pillow12.txt", Resample::kPillow12); }
TEST(CenterCrop, EqualsPillow13) { check_crops("center_pillow13.txt", Resample::kPillow13); }

}  // namespace
}  // namespace dtn::golden
