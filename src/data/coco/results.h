// Results of detectors: boxes with scores, and masks, as in COCO's JSON files of results.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/coco/annotations.h"
#include "data/coco/rle.h"
#include "io/file.h"

namespace dtn {

struct CocoResult {
  std::int64_t image_id = 0, category_id = 0;
  std::array<double, 4> box{};  // x, y, width, height in pixels
  double score = 0;
};

// A list of results, in file order. 56 bytes for each, and the compressed texts of masks.
class CocoResults {
 public:
  std::size_t size() const { return results_.size(); }
  const CocoResult& operator[](std::size_t i) const { return results_[i]; }

  void reserve(std::size_t results) { results_.reserve(results); }
  void add(const CocoResult& result) { results_.push_back(result); }
  void add(const CocoResult& result, const Rle& mask);
  // The same of a compressed text, which the caller has checked.
  void add(const CocoResult& result, std::int64_t height, std::int64_t width,
           std::string_view counts);

  // Number of results with a mask.
  std::size_t mask_count() const { return masks_.size(); }
  bool has_mask(std::size_t i) const { return find_mask(i) != nullptr; }
  // The mask of a result that has one: its size, its text, and its runs.
  PixelBox mask_size(std::size_t i) const;  // width and height; x and y are 0
  std::string_view mask_text(std::size_t i) const;
  Rle mask(std::size_t i) const;

  // Removes all results for which `is_kept` is false; it has one value for each result. The texts
  // of masks stay in memory.
  void keep(const std::vector<bool>& is_kept);

 private:
  struct Mask {
    std::size_t result = 0;
    std::int64_t height = 0, width = 0;
    std::size_t begin = 0, end = 0;  // in texts_
  };
  const Mask* find_mask(std::size_t i) const;

  std::vector<CocoResult> results_;
  std::vector<Mask> masks_;  // by ascending result
  std::string texts_;
};

// Reads a list of results, each with image_id, category_id, score, and bbox or segmentation: a
// compressed or plain run-length mask. A result without a bbox gets the bounds of its mask. Throws
// DataError with the file, the position in it, and the result.
CocoResults read_coco_results(const std::filesystem::path& path);
CocoResults read_coco_results(const ByteSource& file);

// Writes a list of results, atomically. Numbers are the shortest that read back as the same double.
// Throws Error if the file cannot be written, and DataError for a number that is not finite.
void write_coco_results(const std::filesystem::path& path, const CocoResults& results);

// Removes the results of categories that `truths` does not list, and returns their number. Throws
// DataError with `name` and the result for an image that is not listed, and for a mask that has not
// the size of its image.
std::int64_t match_results(CocoResults& results, const CocoAnnotations& truths,
                           const std::string& name);

}  // namespace dtn
