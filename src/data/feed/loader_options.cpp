#include "data/feed/loader_options.h"

#include <algorithm>

#include "data/feed/epoch_plan.h"
#include "dtn/core/check.h"
#include "dtn/core/parallel.h"

namespace dtn {
namespace {

std::vector<std::int64_t> labels_to_balance(const SampleSource& source) {
  std::vector<std::int64_t> labels = source.labels();
  if (labels.empty() || !source.groups().empty()) {
    throw ConfigError(cat("data.sampling: balanced needs ", source.noun(),
                          " with one class each; set data.sampling: uniform (",
                          source.description(), ")"));
  }
  DTN_CHECK(static_cast<std::int64_t>(labels.size()) == source.size(), source.description(), ": ",
            labels.size(), " labels");
  return labels;
}

}  // namespace

LoaderOptions checked(const LoaderOptions& options, const SampleSource& source) {
  const std::int64_t size = source.size();
  const std::string& description = source.description();
  DTN_CHECK(options.batch_size >= 1 && options.workers >= 0 && options.repeats >= 1 &&
                options.copies >= 1 && 0 <= options.rank && options.rank < options.ranks,
            "loader options: batch_size ", options.batch_size, ", workers ", options.workers,
            ", repeats ", options.repeats, ", copies ", options.copies, ", rank ", options.rank,
            " of ", options.ranks);
  if (size == 0) throw DataError(cat("the data set is empty: ", description));
  const std::int64_t total =
      options.shuffle ? epoch_length(source, options.batch_size, options.repeats, options.copies)
                      : epoch_length(size, options.repeats, options.copies);
  if (options.drop_last && total < options.batch_size) {
    throw DataError(cat("the data set has ", size, " ", source.noun(), " and data.repeats is ",
                        options.repeats, ", which do not fill one batch of ", options.batch_size,
                        "; lower train.batch_size or raise data.repeats (", description, ")"));
  }
  if (options.drop_last && (options.batch_size + 1) / 2 < options.ranks) {
    throw ConfigError(cat("train.batch_size ", options.batch_size, " is too small for ",
                          options.ranks, " processes; raise it to ", 2 * options.ranks));
  }
  LoaderOptions whole = options;
  if (options.shuffle) {
    whole.lengths = source.lengths();
    whole.groups = source.groups();
    if (options.balanced) whole.labels = labels_to_balance(source);
  }
  if (whole.lengths.empty() && whole.groups.empty()) return whole;
  const auto fits = [&](std::size_t count) {
    return count == 0 || static_cast<std::int64_t>(count) == size;
  };
  DTN_CHECK(fits(whole.lengths.size()) && fits(whole.groups.size()) &&
                (whole.lengths.empty() || whole.groups.empty()),
            description, ": ", whole.lengths.size(), " lengths and ", whole.groups.size(),
            " groups");
  if (options.copies > 1) {
    throw ConfigError(cat("augment.repeats is ", options.copies, ", but must be 1 if batches of ",
                          source.noun(), " are formed by ",
                          whole.groups.empty() ? "length" : "group"));
  }
  return whole;
}

int workers_of(const DataConfig& data, Device device) {
  constexpr int kOnCpu = 2, kMax = 32;
  if (data.workers) return *data.workers;
  // Leaves one core to the thread that feeds the device.
  return device == kCpu ? kOnCpu : std::clamp(max_threads() - 1, kOnCpu, kMax);
}

}  // namespace dtn
