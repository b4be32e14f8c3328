#include "tasks/coco_figures/overlap.h"

#include <algorithm>

#include "dtn/core/check.h"

namespace dtn {
namespace {

// A mask, and the quantities of it that every pair needs.
struct MeasuredMask {
  const Rle* rle = nullptr;
  std::int64_t area = 0;
  PixelBox bounds{};
};

// Not inlined, because a compiler might fuse the product with an addition. The sum would then be
// rounded once, and not twice as in COCO's tool.
[[gnu::noinline]] double product(double a, double b) { return a * b; }

MeasuredMask measure(const Rle& rle) { return {&rle, mask_area(rle), bounds_of(rle)}; }

// Returns the common length of the intervals [a, a + size_a) and [b, b + size_b), or a value that
// is not positive.
template <class T>
T common_length(T a, T size_a, T b, T size_b) {
  return std::min(size_a + a, size_b + b) - std::max(a, b);
}

bool may_touch(const PixelBox& a, const PixelBox& b) {
  return common_length(a.x, a.width, b.x, b.width) > 0 &&
         common_length(a.y, a.height, b.y, b.height) > 0;
}

double mask_overlap(std::int64_t image, const MeasuredMask& found, const MeasuredMask& truth,
                    bool crowd) {
  if (found.rle->height != truth.rle->height || found.rle->width != truth.rle->width) {
    throw DataError(cat("image ", image, ": the mask of a detection has ", found.rle->width, " x ",
                        found.rle->height, " pixels, but that of a truth has ", truth.rle->width,
                        " x ", truth.rle->height,
                        "; evaluate results with the annotations that they were made for"));
  }
  if (!may_touch(found.bounds, truth.bounds)) return 0;
  const std::int64_t common = intersection_area(*found.rle, *truth.rle);
  if (common == 0) return 0;
  const std::int64_t whole = crowd ? found.area : found.area + truth.area - common;
  return static_cast<double>(common) / static_cast<double>(whole);
}

void fill_mask_overlaps(std::int64_t image, std::span<const FoundObject* const> found,
                        std::span<const TruthObject* const> truths, double* out) {
  std::vector<MeasuredMask> truth_masks;
  truth_masks.reserve(truths.size());
  for (const TruthObject* truth : truths) truth_masks.push_back(measure(truth->mask));
  for (const FoundObject* f : found) {
    const MeasuredMask mask = measure(f->mask);
    for (std::size_t t = 0; t < truths.size(); ++t) {
      *out++ = mask_overlap(image, mask, truth_masks[t], truths[t]->crowd);
    }
  }
}

}  // namespace

double box_overlap(const CocoBox& found, const CocoBox& truth, bool crowd) {
  const double width = common_length(found[0], found[2], truth[0], truth[2]);
  if (width <= 0) return 0;
  const double height = common_length(found[1], found[3], truth[1], truth[3]);
  if (height <= 0) return 0;
  const double common = product(width, height);
  const double own = product(found[2], found[3]);
  const double whole = crowd ? own : own + product(truth[2], truth[3]) - common;
  return common / whole;
}

OverlapTable overlaps_of(std::int64_t image, OverlapKind kind,
                         std::span<const FoundObject* const> found,
                         std::span<const TruthObject* const> truths) {
  OverlapTable table{truths.size(), std::vector<double>(found.size() * truths.size())};
  if (table.values.empty()) return table;
  double* out = table.values.data();
  if (kind == OverlapKind::kMasks) {
    fill_mask_overlaps(image, found, truths, out);
    return table;
  }
  for (const FoundObject* f : found) {
    for (const TruthObject* truth : truths) *out++ = box_overlap(f->box, truth->box, truth->crowd);
  }
  return table;
}

double found_area(const FoundObject& found, OverlapKind kind) {
  if (kind == OverlapKind::kMasks) return static_cast<double>(mask_area(found.mask));
  return found.box[2] * found.box[3];
}

}  // namespace dtn
