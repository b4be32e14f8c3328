#include "tasks/coco_figures/files.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "dtn/core/check.h"
#include "dtn/core/parallel.h"

namespace dtn {
namespace {

// Results of each image, in file order.
class ResultsByImage {
 public:
  ResultsByImage(const CocoAnnotations& truths, const CocoResults& results)
      : begins_(truths.images().size() + 1), order_(results.size()) {
    std::vector<std::int32_t> image(results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      image[i] = truths.find_image(results[i].image_id);
      DTN_CHECK(image[i] >= 0, "result ", i, " is of an unknown image");
      ++begins_[static_cast<std::size_t>(image[i]) + 1];
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
    for (std::size_t i = 0; i < results.size(); ++i) {
      order_[next[static_cast<std::size_t>(image[i])]++] = i;
    }
  }

  std::span<const std::size_t> of(std::size_t image) const {
    return std::span(order_).subspan(begins_[image], begins_[image + 1] - begins_[image]);
  }

 private:
  std::vector<std::size_t> begins_, order_;
};

std::vector<TruthObject> truths_of(const CocoAnnotations& all, std::size_t image,
                                   OverlapKind kind) {
  std::vector<TruthObject> truths;
  for (const std::int32_t index : all.of_image(image)) {
    const CocoAnnotation& from = all.annotations()[static_cast<std::size_t>(index)];
    if (from.category < 0) continue;
    truths.push_back({.category = all.categories()[static_cast<std::size_t>(from.category)].id,
                      .box = from.box,
                      .area = from.area,
                      .crowd = from.crowd});
    if (kind == OverlapKind::kMasks) {
      truths.back().mask = all.mask(static_cast<std::size_t>(index));
    }
  }
  return truths;
}

std::vector<FoundObject> found_of(const CocoResults& results, std::span<const std::size_t> of_image,
                                  OverlapKind kind) {
  std::vector<FoundObject> found;
  found.reserve(of_image.size());
  for (const std::size_t i : of_image) {
    const CocoResult& from = results[i];
    found.push_back({.category = from.category_id, .box = from.box, .score = from.score});
    if (kind != OverlapKind::kMasks) continue;
    if (!results.has_mask(i)) {
      throw DataError(cat("results[", i, "] has no segmentation, so masks cannot be evaluated"));
    }
    found.back().mask = results.mask(i);
  }
  return found;
}

}  // namespace

CocoReport evaluate_results(const CocoAnnotations& truths, const CocoResults& results,
                            OverlapKind kind) {
  std::vector<std::int64_t> categories;
  for (const CocoCategory& category : truths.categories()) categories.push_back(category.id);
  CocoEvaluator evaluator(std::move(categories), kind);
  const ResultsByImage by_image(truths, results);
  const std::size_t count = truths.images().size();
  std::vector<ImageMatches> matches(count);
  parallel_for(static_cast<std::int64_t>(count), [&](std::int64_t i) {
    const auto image = static_cast<std::size_t>(i);
    matches[image] = evaluator.match(truths.images()[image].id, truths_of(truths, image, kind),
                                     found_of(results, by_image.of(image), kind));
  });
  for (ImageMatches& each : matches) evaluator.add(std::move(each));
  return evaluator.report();
}

}  // namespace dtn
