// What the programs share: options they have in common, and exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/exit_code.h"
#include "dtn/core/device.h"
#include "dtn/dist/communicator.h"

namespace dtn {

// Checks of an option's number.
CLI::Validator positive();
CLI::Validator non_negative();

// How many of a program may work together.
enum class Processes { kOne, kSeveral };

// The processes that this one works with; null until it has joined them.
std::unique_ptr<Communicator>& job();

// Options of every program that computes.
struct MachineOptions {
  std::string device = "auto";
  int threads = 0;
  double rank_timeout = CommunicatorOptions{}.timeout_seconds;

  void add_to(CLI::App& app);
  void add_ranks_to(CLI::App& app);
  // The device to compute on. Joins the other processes of the job, if any.
  Device apply() const;
};

// --set KEY.PATH=VALUE, as often as one likes.
void add_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& help);

// The commit that the program was built from: "9c0a6f5d21", "9c0a6f5d21-dirty" where files had been
// changed, or "unknown".
const char* commit();

// For instance "dtn 0.1.0, GCC 12.2, oneDNN 2.7.1, no CUDA, commit 9c0a6f5d21".
std::string version_line();

// What a failure is to whoever started the program.
int exit_code_of(const std::exception& e);

// Tells the user, and ends the other processes of the job.
int fail(const std::exception& e);

// Parses the command line, with --help and --version, runs `body` and turns what it throws into a
// message and an exit code. Of a job's processes the first alone speaks of the command line.
int run_program(CLI::App& app, int argc, char** argv, Processes processes,
                const std::function<int()>& body);

}  // namespace dtn
