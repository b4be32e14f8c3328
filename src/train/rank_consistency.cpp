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

// Throws E if the numbers of a rank differ from those of the first rank. The message names all such
// ranks: "the weights of rank 1 on node7, process 4711; rank 3 ... <differ> rank 0 ...<rest>".
template <class E>
void check_equal(const std::vector<std::int64_t>& numbers, Communicator& ranks,
                 const std::string& what, const char* differ, const std::string& rest) {
  const Tensor own = Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())});
  const Tensor all = ranks.all_gather(own);
  std::string names;
  for (int r = 1; r < ranks.size(); ++r) {
    if (std::memcmp(all.slice(r, r + 1).raw(), all.raw(), own.nbytes()) == 0) continue;
    names += (names.empty() ? "" : "; ") + ranks.name_of(r);
  }
  if (!names.empty()) throw E(cat(what, " of ", names, differ, ranks.name_of(0), rest));
}

std::uint32_t checksum_of(const Tensor& x) {
  const Tensor host = x.to(kCpu);
  return crc32c({static_cast<const std::byte*>(host.raw()), host.nbytes()});
}

}  // namespace

void check_equal_weights(const Tensor& weights, Communicator& ranks) {
  if (ranks.is_single()) return;
  check_equal<Error>(
      {checksum_of(weights)}, ranks, "the weights", " differ from those of ",
      ", because of an error in memory or in the network. Continue from the last checkpoint with "
      "--resume auto; if it happens again, do so without that machine.");
}

void check_equal_config(const ExperimentConfig& config, Communicator& ranks) {
  if (ranks.is_single()) return;
  ExperimentConfig same = config;
  same.data.root.clear();
  same.data.train.reset();
  same.data.val.reset();
  same.data.labels.reset();
  same.data.workers.reset();
  Fingerprint print;
  print.add(to_yaml(same));
  check_equal<ConfigError>(
      {print.number()}, ranks, "the config", " differs from that of ",
      "; start all processes with the same --config and --set, and the same distill.teacher");
}

void check_equal_data(const SampleSource& data, Communicator& ranks) {
  constexpr std::int64_t kLooks = 1000;  // samples that are compared
  if (ranks.is_single()) return;
  Fingerprint print;
  for (std::int64_t i = 0; i < data.size(); i += std::max<std::int64_t>(1, data.size() / kLooks)) {
    print.add(data.identity(i));
  }
  check_equal<DataError>({data.size(), print.number()}, ranks, cat("the ", data.noun()),
                         " differ from those of ",
                         cat(" (", data.description(),
                             "); data.root must contain the same data set on every machine"));
}

}  // namespace dtn
