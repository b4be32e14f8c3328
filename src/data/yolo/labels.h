// Detection data sets in YOLO's layout: a folder of images and a folder of labels, with a text file
// for each image. A line holds one truth, in units of the image's width and height:
//     class cx cy w h             a box by its centre
//     class x1 y1 x2 y2 x3 y3 ...  a polygon of at least three corners
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/coco/annotations.h"
#include "data/coco/polygon.h"

namespace dtn {

// A line of a label file, in pixels.
struct YoloLabel {
  std::int64_t category = 0;
  std::array<double, 4> box{};  // x, y, width, height
  double area = 0;              // of the box, or of the polygon by its corners
  std::vector<Corner> corners;  // empty for a box
};

// Reads the text of a label file. Empty lines are skipped. Throws DataError with `name` and the
// line for a class that is not in [0, classes), a number that is not from 0 to 1, and another
// number of values. Values may be outside by 0.001, which writers leave by rounding.
std::vector<YoloLabel> parse_yolo_labels(std::string_view text, const std::string& name,
                                         std::int64_t classes, std::int64_t width,
                                         std::int64_t height);

// Reads the names of classes: the list or map `names` of a .yaml or .yml file, else a text file
// with one name a line. Throws DataError if there are none, if a map does not number them from 0
// on, or if `kpt_shape` says that the labels have keypoints.
std::vector<std::string> read_yolo_names(const std::filesystem::path& file);

// Returns the file with the names of classes: data.yaml, data.yml or classes.txt in the folder of
// labels, or in one of the two folders above it. Throws DataError if there is none.
std::filesystem::path find_yolo_names(const std::filesystem::path& labels);

// Reads all images below the folder `images`, in order of folder and name, and their labels: that
// of images/a/b.jpg is labels/a/b.txt. Image and annotation ids count from 1 in that order; the id
// of a category is its class. An image without a label file has no truths. Notes such images, and
// label files without an image, in the log. Reads the header of every image, for its size; for that
// of DecodeOptions::upright, if `upright`. Throws DataError if there are no images, if no image has
// a label file, or if a file is damaged.
CocoAnnotations read_yolo_labels(const std::filesystem::path& images,
                                 const std::filesystem::path& labels,
                                 const std::vector<std::string>& names, bool upright = false);

}  // namespace dtn
