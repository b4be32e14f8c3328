#include "dist/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "dtn/core/log.h"

namespace dtn {
namespace {

// Identifies a running machine, and the cores that this process may run on there.
struct Place {
  std::array<char, 40> machine{};
  cpu_set_t cores{};
};

Place own_place() {
  Place place;
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  std::memcpy(place.machine.data(), id.data(), std::min(id.size(), place.machine.size()));
  CPU_ZERO(&place.cores);
  if (sched_getaffinity(0, sizeof place.cores, &place.cores) != 0) CPU_SET(0, &place.cores);
  return place;
}

std::vector<int> cores_of(const Place& place) {
  std::vector<int> cores;
  for (int c = 0; c < CPU_SETSIZE; ++c) {
    if (CPU_ISSET(c, &place.cores)) cores.push_back(c);
  }
  return cores;
}

}  // namespace

int share_of_cores(const std::vector<std::vector<int>>& masks, std::size_t rank) {
  double cores = 0;
  for (int core : masks[rank]) {
    const auto users = std::ranges::count_if(
        masks, [core](const auto& mask) { return std::ranges::find(mask, core) != mask.end(); });
    cores += 1.0 / static_cast<double>(users);
  }
  return std::max(1, static_cast<int>(cores + 1e-6));
}

int share_of_cores(Communicator& ranks) {
  const Place local = own_place();
  Tensor bytes = Tensor::empty({sizeof local}, DType::kUInt8);
  std::memcpy(bytes.raw(), &local, sizeof local);
  const Tensor all = ranks.all_gather(bytes);
  std::vector<std::vector<int>> masks;
  std::set<int> used;
  std::size_t here = 0;
  for (int r = 0; r < ranks.size(); ++r) {
    Place place;
    std::memcpy(&place, all.slice(r, r + 1).raw(), sizeof place);
    if (place.machine != local.machine) continue;
    if (r == ranks.rank()) here = masks.size();
    masks.push_back(cores_of(place));
    used.insert(masks.back().begin(), masks.back().end());
  }
  const auto cores = static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN));
  // By default mpirun binds each of two processes to one core, however many cores there are.
  const bool tied = std::ranges::all_of(masks, [](const auto& mask) { return mask.size() == 1; });
  if (ranks.is_root() && tied && used.size() < cores) {
    log_warn(cat("each process is bound to one core, so ", cores - used.size(), " of ", cores,
                 " cores stay idle; start the processes with mpirun --bind-to none"));
  }
  return share_of_cores(masks, here);
}

}  // namespace dtn
