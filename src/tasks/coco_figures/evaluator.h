// COCO's twelve figures. They equal those of COCO's own tool, pycocotools 2.0.11.
//
// For each category, range of areas and overlap threshold, the detections of all images come by
// falling score. Equal scores come by ascending image id. Ignored detections are left out. With n
// truths that are not ignored, after each detection
//
//   recall = TP / n
//   precision = TP / (TP + FP + 2^-52), then the largest value at this or a higher recall
//
// The precision at recall r is that of the first detection whose recall is at least r, and 0 if
// there is none. AP is the mean over the thresholds, 101 recalls and all categories with a truth.
// AR is the mean of the last recall over the thresholds and these categories.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tasks/coco_figures/matching.h"
#include "tasks/coco_figures/objects.h"

namespace dtn {

inline constexpr int kCocoRecalls = 101;  // 0 x 0.01, 1 x 0.01, ..., 100 x 0.01
// Names of the figures in their usual order. AP50 and AP75 are AP at one threshold; s, m and l
// stand for small, medium and large objects; AR1 and AR10 take the best 1 and 10 detections per
// image and category, and all other figures the best 100.
inline constexpr std::array<std::string_view, 12> kCocoFigures = {
    "AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"};

// The results of an evaluation: fractions from 0 to 1, and -1 where no category has a truth.
struct CocoReport {
  std::array<double, kCocoFigures.size()> figures{};  // named by kCocoFigures
  std::vector<double> class_ap;                       // [categories] AP of each category
  // [10][101] precision at each threshold and recall, for all sizes: the mean over the categories.
  std::array<std::array<double, kCocoRecalls>, kOverlapThresholds> precision{};

  // Returns a figure by its name. Throws Error for an unknown name.
  double at(std::string_view figure) const;
};

// Collects the matches of images. Images may come in any order, and on several ranks.
class CocoEvaluator {
 public:
  // `categories` are the ids of the annotations in any order. Throws DataError if one occurs twice.
  CocoEvaluator(std::vector<std::int64_t> categories, OverlapKind kind);

  // Category ids in ascending order; CocoReport::class_ap has this order.
  const std::vector<std::int64_t>& categories() const { return categories_; }

  // Matches an image without adding it, see match_image(). Several threads may call it at a time.
  ImageMatches match(std::int64_t image, std::span<const TruthObject> truths,
                     std::span<const FoundObject> found) const {
    return match_image(image, categories_, kind_, truths, found);
  }
  // Adds the matches of an image. An image without truths and detections may be left out.
  void add(ImageMatches matches) { images_.push_back(std::move(matches)); }
  // Matches and adds an image.
  void add(std::int64_t image, std::span<const TruthObject> truths,
           std::span<const FoundObject> found) {
    add(match(image, truths, found));
  }

  // The added images as numbers, for other ranks: 2 for each image, 6 for each category of an image
  // and 3 for each detection.
  std::vector<std::int64_t> packed() const;
  // Adds the images of packed() of an evaluator with the same categories. Throws Error for numbers
  // that are not of packed().
  void add_packed(std::span<const std::int64_t> numbers);

  // Returns the results of the images so far. They depend neither on the order of the images nor on
  // the number of threads. Throws DataError if an image was added twice.
  CocoReport report() const;

 private:
  std::vector<std::int64_t> categories_;
  OverlapKind kind_;
  std::vector<ImageMatches> images_;
};

}  // namespace dtn
