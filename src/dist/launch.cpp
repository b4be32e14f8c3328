#include "dist/launch.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "core/installed.h"
#include "core/text.h"
#include "dist/mpi/module.h"
#include "dtn/core/log.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

// Returns the number in an environment variable, or nothing.
std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  const auto number = parse_number<int>(text ? text : "");
  return number && *number >= 0 ? number : std::nullopt;
}

// Variables with the number of processes, and the rank of this one.
struct LauncherVariables {
  const char *size, *rank;
};
constexpr LauncherVariables kLaunchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},  // mpirun of Open MPI
    {"PMI_SIZE", "PMI_RANK"},                          // srun --mpi=pmi2, mpiexec of MPICH
};

// Slurm also sets its variables in the batch script, which is not a launched task. Only a task of
// srun also has the variables of its process manager's server.
std::optional<Launch> launched_by_slurm() {
  if (!std::getenv("PMIX_RANK") && !std::getenv("PMI_FD")) return std::nullopt;
  const auto size = number_in("SLURM_STEP_NUM_TASKS"), rank = number_in("SLURM_PROCID");
  if (!size || !rank) return std::nullopt;
  return Launch{*size, *rank};
}

// Returns an empty path if there is no module.
fs::path find_module() {
  for (const fs::path& path : installed_places(fs::path("lib/dtn") / kMpiModule)) {
    std::error_code error;
    if (fs::exists(path, error)) return path;
  }
  return {};
}

// Returns true for one of several tasks of one srun that cannot find each other.
bool left_alone_by_srun() {
  return number_in("SLURM_STEP_NUM_TASKS").value_or(1) > 1 && number_in("SLURM_PROCID") &&
         !std::getenv("DTN_ALONE");
}

OpenMpiTransport* load_module(const Launch& job) {
  const fs::path path = find_module();
  if (path.empty()) {
    throw ConfigError(cat("this is one of ", job.size,
                          " processes of a job, but the program was built without MPI: install "
                          "libopenmpi-dev and build it again, or start it without mpirun or srun"));
  }
  // Global, because parts of Open MPI that it loads later look for its symbols.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!module) {
    throw ConfigError(cat("this is one of ", job.size,
                          " processes of a job, but MPI cannot be "
                          "loaded: ",
                          dlerror()));
  }
  return reinterpret_cast<OpenMpiTransport*>(dlsym(module, kOpenMpiTransport));
}

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

Launch launch() {
  if (std::getenv("DTN_ALONE")) return {};
  for (const LauncherVariables& launcher : kLaunchers) {
    const auto size = number_in(launcher.size), rank = number_in(launcher.rank);
    if (size && rank && *rank < *size) return {*size, *rank};
  }
  return launched_by_slurm().value_or(Launch{});
}

std::unique_ptr<Communicator> join_job(const CommunicatorOptions& options) {
  const Launch job = launch();
  if (job.size == 1 && left_alone_by_srun()) {
    throw ConfigError(
        "srun started several tasks that cannot find each other: use srun --mpi=pmix, or set "
        "DTN_ALONE=1 if each task is a separate run");
  }
  if (job.size == 1) return std::make_unique<Communicator>();
  OpenMpiTransport* open = load_module(job);
  DTN_CHECK(open, "the MPI module has no function ", kOpenMpiTransport);
  auto ranks =
      std::make_unique<Communicator>([&] { return std::unique_ptr<Transport>(open()); }, options);
  if (ranks->size() != job.size) {
    throw ConfigError(cat("the launcher started ", job.size, " processes, but MPI knows of ",
                          ranks->size(),
                          ": mpirun or srun belongs to a different MPI than the program (with "
                          "srun, try --mpi=pmix)"));
  }
  return ranks;
}

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
