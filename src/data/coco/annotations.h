// Truths of a detection data set: images, categories and annotations, as in COCO's JSON files.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/coco/records.h"
#include "data/coco/rle.h"
#include "io/file.h"

namespace dtn {

struct CocoImage {
  std::int64_t id = 0;
  std::string file_name;               // relative to the folder of the split
  std::int64_t width = 0, height = 0;  // pixels, at least 1
};

struct CocoCategory {
  std::int64_t id = 0;
  std::string name;
};

struct CocoAnnotation {
  std::int64_t id = 0;
  std::int32_t image = 0;       // index of the image
  std::int32_t category = 0;    // index of the category; -1 if the file does not list it
  std::array<double, 4> box{};  // x, y, width, height in pixels, as in the file
  double area = 0;              // pixels, as in the file
  bool crowd = false, ignore = false;
  coco::SegmentationKind segmentation = coco::SegmentationKind::kNone;
  // Range in the pool of that kind of segmentation, see CocoAnnotations.
  std::uint64_t begin = 0, end = 0;
};

// The content of a file. Immutable; made by CocoAnnotationsBuilder.
class CocoAnnotations {
 public:
  // The file, or the folder of labels, for messages.
  const std::string& name() const { return name_; }
  std::span<const CocoImage> images() const { return images_; }                 // in file order
  std::span<const CocoCategory> categories() const { return categories_; }      // by ascending id
  std::span<const CocoAnnotation> annotations() const { return annotations_; }  // in file order
  // Indices of the annotations of an image, in file order.
  std::span<const std::int32_t> of_image(std::size_t image) const;

  // Return the index of an id; -1 if there is none.
  std::int32_t find_image(std::int64_t id) const;
  std::int32_t find_category(std::int64_t id) const;

  // Returns the mask of an annotation, of the size of its image. Throws DataError with the id if
  // it has no segmentation, or polygons of too much work (see rasterize()).
  Rle mask(std::size_t annotation) const;

 private:
  friend class CocoAnnotationsBuilder;

  std::string name_;
  std::vector<CocoImage> images_;
  std::vector<CocoCategory> categories_;
  std::vector<CocoAnnotation> annotations_;
  std::vector<std::pair<std::int64_t, std::int32_t>> image_ids_;  // sorted, with indices
  std::vector<std::int32_t> by_image_;                            // annotations, grouped
  std::vector<std::size_t> image_ends_;                           // of the groups
  // Pools of segmentations. Polygon i has the corners polygon_ends_[i - 1] to polygon_ends_[i].
  std::vector<std::uint64_t> polygon_ends_;
  std::vector<Corner> corners_;
  std::vector<std::uint32_t> runs_;
  std::string texts_;
};

// Collects truths in any order.
class CocoAnnotationsBuilder {
 public:
  explicit CocoAnnotationsBuilder(std::string name);

  // Adds an image, a category or an annotation. Throws DataError if a field that is needed is
  // missing, or if an image has no pixels or too many. An annotation needs id, image_id,
  // category_id, bbox and area.
  void add(const coco::Record& record);

  // Resolves the ids. Throws DataError if an id appears twice, if an annotation names an unknown
  // image, or if a mask has another size than its image.
  CocoAnnotations finish();

 private:
  // Parts of an annotation that finish() needs.
  struct Pending {
    std::int64_t image_id = 0, category_id = 0, byte = 0;
    std::int64_t mask_height = -1, mask_width = -1;  // -1: polygons or nothing
  };

  void add_image(const coco::Record& record);
  void add_category(const coco::Record& record);
  void add_annotation(const coco::Record& record);
  void add_segmentation(const coco::RecordSegmentation& from, CocoAnnotation& to);
  void index_ids();
  void resolve();
  void group_by_image();

  CocoAnnotations made_;
  std::vector<Pending> pending_;
};

// Reads a file of annotations. Memory: about 120 bytes for each annotation, 8 for each corner.
// Throws DataError with the file, the position in it, and the annotation.
CocoAnnotations read_coco_annotations(const std::filesystem::path& path);
CocoAnnotations read_coco_annotations(const ByteSource& file);

}  // namespace dtn
