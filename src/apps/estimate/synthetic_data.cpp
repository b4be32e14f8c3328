#include <filesystem>

#include "apps/estimate/run_size.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

// Returns the config with synthetic samples, as many as the split of the data set is known to have.
ExperimentConfig with_synthetic_samples(ExperimentConfig config, Split split) {
  struct Sizes {
    std::int64_t train, val;
  };
  constexpr Sizes kImageNet{1'281'167, 50'000}, kCifar{50'000, 10'000}, kMnist{60'000, 10'000};
  constexpr Sizes kListops{96'000, 2'000};
  const std::string& kind = config.data.dataset;
  const bool imagenet = kind == "imagenet" || config.model.num_classes == 1000;
  const Sizes sizes = kind == "listops"           ? kListops
                      : imagenet                  ? kImageNet
                      : kind.starts_with("cifar") ? kCifar
                                                  : kMnist;
  config.data.size = split == Split::kTrain ? sizes.train : sizes.val;
  config.data.dataset = "synthetic";
  config.data.train.reset();
  config.data.val.reset();
  return config;
}

}  // namespace

RunData open_or_synthesize(Task& task, ExperimentConfig& config, Device device,
                           const Registries& registries, std::string& note) {
  try {
    return open_run_data(task, device);
  } catch (const DataError& e) {
    if (std::filesystem::exists(config.data.root)) throw;
    const char* noun = config.model.max_length > 0 ? "sequences" : "images";
    note = cat("no data: ", e.what(), "\nthe estimates use synthetic ", noun,
               " and an assumed size of the data set; loading real ", noun,
               " takes a different time\n");
  }
  const auto synthetic = [&](Split split) {
    const ExperimentConfig made = with_synthetic_samples(config, split);
    return make_task({made, kMeta, registries})->source(split, device);
  };
  RunData data{synthetic(Split::kTrain), synthetic(Split::kVal)};
  config = with_synthetic_samples(config, Split::kTrain);
  return data;
}

}  // namespace dtn
