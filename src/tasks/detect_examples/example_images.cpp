#include "tasks/detect_examples/example_images.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "dtn/core/tensor.h"
#include "dtn/dist/communicator.h"
#include "tasks/detect_examples/detections_file.h"

namespace dtn {

std::vector<std::int64_t> example_images(std::int64_t samples) {
  constexpr std::int64_t kExamples = 8;
  const std::int64_t count = std::clamp<std::int64_t>(samples, 0, kExamples);
  std::vector<std::int64_t> images;
  for (std::int64_t i = 0; i < count; ++i) {
    images.push_back(count == 1 ? 0 : i * (samples - 1) / (count - 1));
  }
  return images;
}

std::vector<DetectionExample> gather_examples(const std::vector<DetectionExample>& own,
                                              Communicator& ranks) {
  const std::string text = examples_json(own);
  const auto bytes = static_cast<std::int64_t>(text.size());
  const Tensor sizes = ranks.all_gather(Tensor::from(std::vector<std::int64_t>{bytes}, {1}));
  std::vector<DetectionExample> all;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::uint8_t> sent(static_cast<std::size_t>(sizes.data<std::int64_t>()[rank]));
    if (rank == ranks.rank()) std::memcpy(sent.data(), text.data(), sent.size());
    const Tensor part = Tensor::from(sent, {static_cast<std::int64_t>(sent.size())});
    ranks.broadcast(part, rank);
    const auto* from = reinterpret_cast<const char*>(part.data<std::uint8_t>());
    for (DetectionExample& image : examples_of_json({from, sent.size()})) {
      all.push_back(std::move(image));
    }
  }
  std::ranges::stable_sort(all, {}, &DetectionExample::index);
  const auto same = [](const DetectionExample& a, const DetectionExample& b) {
    return a.index == b.index;
  };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

}  // namespace dtn
