// COCO files of annotations and of results: any result other than consistent truths, masks of the
// size of their image, results that read back after writing, or a DataError, is a bug.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "data/coco/annotations.h"
#include "data/coco/results.h"
#include "data/coco/training_truths.h"
#include "dtn/core/check.h"
#include "temp_folder.h"

namespace {

constexpr std::int64_t kMaxPixels = 1 << 20;  // larger masks would take too long

void check_mask(const dtn::CocoAnnotations& all, std::size_t i) {
  const dtn::CocoImage& image = all.images()[static_cast<std::size_t>(all.annotations()[i].image)];
  if (image.width * image.height > kMaxPixels) return;
  try {
    const dtn::Rle mask = all.mask(i);
    std::int64_t sum = 0;
    for (const std::uint32_t run : mask.runs) sum += run;
    if (mask.height != image.height || mask.width != image.width) std::abort();
    if (sum != image.width * image.height || dtn::mask_area(mask) > sum) std::abort();
  } catch (const dtn::DataError&) {
  }
}

void check_annotations(std::span<const std::byte> bytes) {
  const dtn::CocoAnnotations all = dtn::read_coco_annotations(dtn::MemorySource(bytes, "fuzz"));
  std::size_t grouped = 0;
  for (std::size_t i = 0; i < all.images().size(); ++i) {
    for (const std::int32_t k : all.of_image(i)) {
      if (all.annotations()[static_cast<std::size_t>(k)].image != static_cast<int>(i)) std::abort();
      ++grouped;
    }
    if (all.find_image(all.images()[i].id) != static_cast<int>(i)) std::abort();
  }
  if (grouped != all.annotations().size()) std::abort();
  for (std::size_t i = 0; i < all.annotations().size(); ++i) check_mask(all, i);
  const dtn::TrainingTruths truths = dtn::training_truths(all);
  if (truths.ends.size() != truths.images.size()) std::abort();
}

void check_results(std::span<const std::byte> bytes) {
  static const dtn::test::TempFolder folder;
  const auto path = folder.path() / "results.json";
  const dtn::CocoResults found = dtn::read_coco_results(dtn::MemorySource(bytes, "fuzz"));
  dtn::write_coco_results(path, found);
  const dtn::CocoResults again = dtn::read_coco_results(path);
  if (again.size() != found.size() || again.mask_count() != found.mask_count()) std::abort();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const dtn::CocoResult &a = found[i], &b = again[i];
    if (a.image_id != b.image_id || a.category_id != b.category_id) std::abort();
    if (a.box != b.box || a.score != b.score) std::abort();
    if (found.has_mask(i) && found.mask(i) != again.mask(i)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const auto check : {check_annotations, check_results}) {
    try {
      check(bytes);
    } catch (const dtn::DataError&) {
    }
  }
  return 0;
}
