#include "train/agreement.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "dtn/config/load.h"
#include "io/crc32c.h"
#include "io/fingerprint.h"

namespace dtn {
namespace {

// The ranks whose bytes are not those of the first: "rank 1 on node7, process 4711; rank 3 ...".
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

// A plain struct of the first rank becomes that of all.
template <class T>
void share_value(T& value, Communicator& ranks) {
  static_assert(std::is_trivially_copyable_v<T>);
  Tensor bytes = Tensor::empty({sizeof value}, DType::kUInt8);
  std::memcpy(bytes.raw(), &value, sizeof value);
  ranks.broadcast(bytes);
  std::memcpy(&value, bytes.raw(), sizeof value);
}

}  // namespace

void share_run(Learner& learner, RunProgress& progress, std::optional<std::int64_t>& resumed_at,
               Communicator& ranks) {
  if (ranks.alone()) return;
  ParameterStore& store = learner.model().parameters();
  ranks.broadcast(store.values());
  store.restart_buffers();
  store.refresh_bfloat16();
  for (const auto& [name, moments] : learner.optimizer().state()) ranks.broadcast(moments);
  if (learner.average()) ranks.broadcast(learner.average()->values());
  struct Place {
    RunProgress progress;
    std::int64_t updates, resumed_at;
  } place{progress, learner.updates(), resumed_at.value_or(-1)};
  share_value(place, ranks);
  progress = place.progress;
  learner.set_updates(place.updates);
  if (place.resumed_at >= 0) resumed_at = place.resumed_at;
  check_equal_weights(store.values(), ranks);
}

void check_equal_weights(const Tensor& weights, Communicator& ranks) {
  if (ranks.alone()) return;
  const Tensor own = numbers({checksum_of(weights)});
  const std::string others = different_ranks(own, ranks);
  if (others.empty()) return;
  throw Error(cat("the weights of ", others, " are no longer those of ", ranks.name_of(0),
                  ": its memory or the network between them loses bits. Go on from the last "
                  "checkpoint with --resume auto, without that machine if it happens again."));
}

void check_equal_config(const ExperimentConfig& config, Communicator& ranks) {
  if (ranks.alone()) return;
  ExperimentConfig same = config;
  same.data.root.clear();
  same.data.train.reset();
  same.data.val.reset();
  same.data.workers.reset();
  Fingerprint print;
  print.add(to_yaml(same));
  const std::string others = different_ranks(numbers({print.number()}), ranks);
  if (others.empty()) return;
  throw ConfigError(cat("the config of ", others, " differs from that of ", ranks.name_of(0),
                        "; start all processes with the same --config and --set"));
}

void check_equal_data(const SampleSource& data, Communicator& ranks) {
  constexpr std::int64_t kLooks = 1000;  // samples that are compared
  if (ranks.alone()) return;
  Fingerprint print;
  for (std::int64_t i = 0; i < data.size(); i += std::max<std::int64_t>(1, data.size() / kLooks)) {
    print.add(data.identity(i));
  }
  const std::string others = different_ranks(numbers({data.size(), print.number()}), ranks);
  if (others.empty()) return;
  throw DataError(cat(data.description(), ", on ", ranks.name_of(0), "; ", others,
                      " finds other images there. data.root must hold the same data set on every "
                      "machine."));
}

}  // namespace dtn
