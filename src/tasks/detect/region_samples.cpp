#include "tasks/detect/region_samples.h"

#include "tasks/detect/assignment.h"
#include "tasks/detect/sample_boxes.h"

namespace dtn {

void add_regions(const BatchImage& image, std::int64_t index, std::span<const Box> proposals,
                 std::int64_t most, std::int64_t background, RegionSamples& samples) {
  std::vector<Box> boxes = image.boxes;
  boxes.insert(boxes.end(), proposals.begin(), proposals.end());
  const std::vector<std::int32_t> assigned = assign_boxes(boxes, image.boxes, kRoiRule);
  const BoxSample sample =
      sample_boxes(assigned, {most, most / 4}, image.key, SampledStage::kProposals);
  const auto add = [&](std::int64_t box, std::int64_t label) {
    samples.boxes.push_back(boxes[static_cast<std::size_t>(box)]);
    samples.images.push_back(index);
    samples.classes.push_back(label);
  };
  for (const std::int64_t box : sample.positive) {
    const auto truth = static_cast<std::size_t>(assigned[static_cast<std::size_t>(box)]);
    const std::int64_t label = image.classes[truth];
    samples.objects.push_back(
        {static_cast<std::int64_t>(samples.boxes.size()), static_cast<std::int64_t>(truth), label,
         encode_box(boxes[static_cast<std::size_t>(box)], image.boxes[truth], kRoiUnits)});
    add(box, label);
  }
  for (const std::int64_t box : sample.negative) add(box, background);
}

}  // namespace dtn
