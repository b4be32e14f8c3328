#include "train/rank_consistency.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "dtn/config/load.h"
#include "io/crc32c.h"
#include "io/fingerprint.h"

namespace dtn {
namespace {

// Returns the ranks whose bytes differ from those of the first rank:
//    rank 1 on node7, process 4711; rank 3 ...
std::string different_ranks(const Tensor& own, Communicator& ranks) {
  const Tensor all = ranks.all_gather(own);
  std::string names;
  for (int r = 1; r < ranks.size(); ++r) {
    if (std::memcmp(all.slice(r, r + 1).raw(), all.raw(), own.nbytes()) == 0) continue;
    names += (names.empty() ? "" : "; ") + ranks.name_of(r);
  }
  return names;
}

std::uint32_t checksum_of(const Tensor& x) {
  const Tensor host = x.to(kCpu);
  return crc32c({static_cast<const std::byte*>(host.raw()), host.nbytes()});
}

Tensor numbers(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

}  // namespace

void check_equal_weights(const Tensor& weights, Communicator& ranks) {
  if (ranks.is_single()) return;
  const Tensor own = numbers({checksum_of(weights)});
  const std::string others = different_ranks(own, ranks);
  if (others.empty()) return;
  throw Error(
      cat("the weights of ", others, " differ from those of ", ranks.name_of(0),
          ", because of an error in memory or in the network. Continue from the last checkpoint "
          "with --resume auto; if it happens again, do so without that machine."));
}

void check_equal_config(const ExperimentConfig& config, Communicator& ranks) {
  if (ranks.is_single()) return;
  ExperimentConfig same = config;
  same.data.root.clear();
  same.data.train.reset();
  same.data.val.reset();
  same.data.workers.reset();
  Fingerprint print;
  print.add(to_yaml(same));
  const std::string others = different_ranks(numbers({print.number()}), ranks);
  if (others.empty()) return;
  throw ConfigError(
      cat("the config of ", others, " differs from that of ", ranks.name_of(0),
          "; start all processes with the same --config and --set, and the same distill.teacher"));
}

void check_equal_data(const SampleSource& data, Communicator& ranks) {
  constexpr std::int64_t kLooks = 1000;  // samples that are compared
  if (ranks.is_single()) return;
  Fingerprint print;
  for (std::int64_t i = 0; i < data.size(); i += std::max<std::int64_t>(1, data.size() / kLooks)) {
    print.add(data.identity(i));
  }
  const std::string others = different_ranks(numbers({data.size(), print.number()}), ranks);
  if (others.empty()) return;
  throw DataError(cat("the ", data.noun(), " of ", others, " differ from those of ",
                      ranks.name_of(0), " (", data.description(),
                      "); data.root must contain the same data set on every machine"));
}

}  // namespace dtn
