// Operations on 8-bit images for augmentation, equal to Pillow's bit for bit (Pillow 9.4: ImageOps,
// ImageEnhance, ImageFilter, Image.transform and Image.rotate, as timm and torchvision call them).
//
// All operations work in place, on images of 1 or 3 channels and of any size from 1 x 1. Some write
// their result to the workspace's image and then swap it with the given one; after a few images
// nothing is allocated any more. Arguments that are not finite or out of the stated range are
// errors of the caller (dtn::Error).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/io/image.h"

namespace dtn {

// Buffers of one thread, reused from image to image.
struct ImageOpsWorkspace {
  Image image;
  std::vector<double> source_x, source_y;  // one row of an affine transform
  std::vector<std::int32_t> columns, rows;
  std::vector<std::uint8_t> line;
};

inline std::int64_t pixel_count(const Image& image) {
  return static_cast<std::int64_t>(image.width) * image.height;
}
inline std::int64_t byte_count(const Image& image) { return pixel_count(image) * image.channels; }
// Throws Error if the number of channels or bytes is wrong.
void check_image(const Image& image);

// Table operations, as in ImageOps and Image.point: each of the 256 values is replaced by another.

// Stretches each channel so that its darkest value becomes 0 and its lightest 255.
void auto_contrast(Image& image);
// Makes the histogram of each channel as flat as a table allows.
void equalize(Image& image);
void invert(Image& image);
// Keeps the `bits` highest bits of each value: 0 .. 8.
void posterize(Image& image, int bits);
// Inverts the values that are at least `threshold`: 0 .. 256.
void solarize(Image& image, int threshold);
// Adds `addend` (0 .. 255) to the values below `threshold`, up to 255.
void solarize_add(Image& image, int addend, int threshold = 128);

// Blends of the image with a plainer one, as in ImageEnhance: factor 0 gives the plain image, 1 the
// image itself, and more than 1 exaggerates. |factor| is at most 1e6.

void adjust_brightness(Image& image, double factor);  // plain: black
void adjust_contrast(Image& image, double factor);    // plain: its mean luma
void adjust_color(Image& image, double factor);       // plain: its luma
void adjust_sharpness(Image& image, double factor,
                      ImageOpsWorkspace& workspace);  // plain: smoothed

// Turns the hue by `hue` (-0.5 .. 0.5) of a full circle, as torchvision's adjust_hue.
void adjust_hue(Image& image, double hue);
// Sets all channels to the luma, as torchvision's Grayscale(3).
void to_grayscale(Image& image);
// Applies ImageFilter.GaussianBlur: three box filters of fractional width in each direction.
// `radius` is the deviation of the Gaussian in pixels, 0 .. 1000. The time grows with it.
void gaussian_blur(Image& image, double radius, ImageOpsWorkspace& workspace);
// Mirrors left to right.
void flip_horizontally(Image& image, ImageOpsWorkspace& workspace);

// Geometric operations. Pixels from outside the image get the fill colour. An image of one channel
// uses its first component.

enum class AffineFilter { kNearest, kBilinear, kBicubic };
AffineFilter affine_filter(Interpolation interpolation);

using FillColor = std::array<std::uint8_t, 3>;
// Returns min(255, round(255 mean)) for each channel, as timm fills with the mean of the data set.
// A single value serves all channels.
FillColor fill_color(std::span<const float> mean);

// The point (x, y) of the result shows the point (a x + b y + c, d x + e y + f) of the image. Pixel
// centres are at halves.
struct AffineMatrix {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};
void transform_affine(Image& image, const AffineMatrix& matrix, AffineFilter filter,
                      const FillColor& fill, ImageOpsWorkspace& workspace);
// Rotates counter-clockwise about the centre and keeps the size.
void rotate(Image& image, double degrees, AffineFilter filter, const FillColor& fill,
            ImageOpsWorkspace& workspace);

}  // namespace dtn
