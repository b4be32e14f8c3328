// What the programs share: options they have in common, and exit codes.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/cuda_device.h"
#include "dist/cores.h"
#include "dist/device_transport.h"
#include "dist/launch.h"
#include "dtn/core/check.h"
#include "dtn/core/device.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"

namespace dtn {

enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,    // the system refused (disk full, out of memory), or a bug
  kExitUsage = 2,     // bad usage or config
  kExitData = 3,      // data missing, damaged or inconsistent
  kExitDiverged = 4,  // training diverged
  kExitStopped = 75,  // stopped by a signal after a checkpoint
};

// How many of a program may work together.
enum class Processes { kOne, kSeveral };

inline const char* const kExitCodesHelp =
    "Exit codes: 0 done, 1 the system refused or a bug, 2 bad usage or config, 3 data, "
    "4 training diverged, 75 stopped by SIGTERM, SIGINT or SIGUSR1 after a checkpoint.";

// The processes that this one works with; null until it has joined them.
inline std::unique_ptr<Communicator>& job() {
  static std::unique_ptr<Communicator> ranks;
  return ranks;
}

// Options of every program that computes.
struct MachineOptions {
  std::string device = "auto";
  int threads = 0;
  double rank_timeout = CommunicatorOptions{}.timeout_seconds;

  void add_to(CLI::App& app) {
    app.add_option("--device", device, "cpu, cuda or auto")->capture_default_str();
    app.add_option("--threads", threads,
                   "computing threads (default: one per core; in a job of several processes, the "
                   "cores of the machine shared out)")
        ->check(CLI::PositiveNumber);
  }
  void add_ranks_to(CLI::App& app) {
    app.add_option("--rank-timeout", rank_timeout,
                   "in a job of several processes: seconds that the others wait for one that "
                   "neither computes nor answers before the job ends; 0: forever")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
  }

  // The device to compute on. Joins the other processes of the job, if any.
  Device apply() const {
    job() = join_job({.timeout_seconds = rank_timeout});
    Communicator& ranks = *job();
    log_as_rank(ranks.rank());
    if (threads > 0) {
      set_num_threads(threads);
    } else if (!ranks.alone()) {
      set_num_threads(share_of_cores(ranks));
    }
    const Device chosen = parse_device(device);
    const std::int64_t on_devices = ranks.sum(chosen.type == DeviceType::kCuda);
    if (on_devices != 0 && on_devices != ranks.size()) {
      throw ConfigError(cat("--device ", device, ": only ", on_devices, " of ", ranks.size(),
                            " processes have a CUDA device that works; name one with --device to "
                            "see what is wrong, or use --device cpu"));
    }
    if (chosen.type == DeviceType::kCuda && !ranks.alone()) {
      Communicator::Work opening(ranks, "opening its device", Communicator::Work::kLong);
      cuda::select_device(ranks.local_rank() % cuda::device_count());
      ranks.set_device_transport(
          open_device_transport(ranks.rank(), ranks.size(), [&](std::byte* data, std::size_t n) {
            Tensor bytes = Tensor::empty({static_cast<std::int64_t>(n)}, DType::kUInt8);
            std::memcpy(bytes.raw(), data, n);
            ranks.broadcast(bytes);
            std::memcpy(data, bytes.raw(), n);
          }));
    }
    return chosen;
  }
};

// libgomp lets idle threads spin for a millisecond or more before they sleep. On a machine that is
// busy with something else, loader threads included, they then burn the very time the work is
// waiting for. It reads the setting when it is loaded, so the program starts itself once more with
// a short spin, unless the environment chooses.
inline void restart_with_short_spin(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  setenv("GOMP_SPINCOUNT", "3000", 1);
  execv(self.c_str(), argv);  // comes back only when it failed; then all is as it was
}

// What a failure is to whoever started the program.
inline int exit_code_of(const std::exception& e) {
  if (dynamic_cast<const ConfigError*>(&e)) return kExitUsage;
  if (dynamic_cast<const DataError*>(&e)) return kExitData;
  if (dynamic_cast<const DivergedError*>(&e)) return kExitDiverged;
  return kExitFailed;
}

// What fails everywhere, such as a config that does not hold, is said once: the others wait, and
// are ended with the job.
inline void let_the_first_speak() {
  if (launch().rank > 0) std::this_thread::sleep_for(std::chrono::seconds(5));
}
// Tells the user, and ends the other processes of the job.
inline int fail(const std::exception& e) {
  const int code = exit_code_of(e);
  Communicator* ranks = job().get();
  let_the_first_speak();
  log_error(e.what());
  if (ranks && !ranks->alone()) ranks->abort(code);
  return code;
}

// Parses the command line, runs `body` and turns what it throws into a message and an exit code.
// Of a job's processes the first alone speaks of the command line.
inline int run_program(CLI::App& app, int argc, char** argv, Processes processes,
                       const std::function<int()>& body) {
  restart_with_short_spin(argv);
  app.footer(kExitCodesHelp);
  const Launch launched = launch();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (launched.rank > 0) {
      let_the_first_speak();
      return e.get_exit_code() == 0 ? kExitDone : kExitUsage;
    }
    return app.exit(e) == 0 ? kExitDone : kExitUsage;
  }
  if (processes == Processes::kOne && launched.size > 1) {
    let_the_first_speak();
    if (launched.rank == 0) {
      log_error(cat(app.get_name(), " works in one process; start it without mpirun or srun"));
    }
    return kExitUsage;
  }
  try {
    const int code = body();
    job().reset();  // waits for the others
    return code;
  } catch (const std::exception& e) {
    return fail(e);
  }
}

}  // namespace dtn
