#include "dist/launch.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/installed.h"
#include "dist/mpi/module.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

// Returns the number in an environment variable, or nothing.
std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return *end == '\0' && value >= 0 ? std::optional<int>(static_cast<int>(value)) : std::nullopt;
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

}  // namespace dtn
