// What the programs share: options they have in common, and exit codes.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

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

inline const char* const kExitCodesHelp =
    "Exit codes: 0 done, 1 the system refused or a bug, 2 bad usage or config, 3 data, "
    "4 training diverged, 75 stopped by SIGTERM or SIGINT after a checkpoint.";

// Options of every program that computes.
struct MachineOptions {
  std::string device = "auto";
  int threads = 0;

  void add_to(CLI::App& app) {
    app.add_option("--device", device, "cpu, cuda or auto")->capture_default_str();
    app.add_option("--threads", threads, "computing threads (default: one per core)")
        ->check(CLI::PositiveNumber);
  }
  // The device to compute on.
  Device apply() const {
    if (threads > 0) set_num_threads(threads);
    return parse_device(device);
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

// Parses the command line, runs `body` and turns what it throws into a message and an exit code.
inline int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  restart_with_short_spin(argv);
  app.footer(kExitCodesHelp);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitDone : kExitUsage;
  }
  try {
    return body();
  } catch (const ConfigError& e) {
    log_error(e.what());
    return kExitUsage;
  } catch (const DataError& e) {
    log_error(e.what());
    return kExitData;
  } catch (const DivergedError& e) {
    log_error(e.what());
    return kExitDiverged;
  } catch (const std::exception& e) {
    log_error(e.what());
    return kExitFailed;
  }
}

}  // namespace dtn
