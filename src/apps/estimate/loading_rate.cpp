#include "apps/estimate/loading_rate.h"

#include <algorithm>
#include <chrono>

#include "core/seconds_since.h"
#include "data/feed/open_split.h"

namespace dtn {

LoadingRate measure_loading(std::shared_ptr<const SampleSource> source,
                            const ExperimentConfig& config, std::int64_t batch_size, Split split,
                            double seconds, Device device) {
  LoaderOptions options = loading_of(config, split, {.device = device});
  const std::int64_t size = source->size(), length = epoch_length(size, 1, options.copies);
  options.batch_size = std::clamp<std::int64_t>(length, 1, batch_size);
  // The epoch is long, so that the waiting of workers at its ends does not count.
  options.repeats = static_cast<int>(std::clamp<std::int64_t>(
      100 * options.batch_size / std::max<std::int64_t>(size, 1), 1, 1000));
  options.drop_last = true;
  Loader loader(std::move(source), options);
  LoadingRate result;
  Batch batch;
  std::int64_t epoch = 0;
  loader.start(epoch);
  loader.next(batch);  // starts the threads and fills the buffers
  const auto start = std::chrono::steady_clock::now();
  double elapsed = 0;
  while (elapsed < seconds) {
    if (loader.next(batch)) {
      result.samples += batch.n;
    } else {
      loader.start(++epoch);
    }
    elapsed = seconds_since(start);
  }
  result.samples_per_second = static_cast<double>(result.samples) / elapsed;
  result.bad_samples = loader.report().bad_images;
  return result;
}

}  // namespace dtn
