// Parts that the programs share: common options and exit codes.
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

// Validators for numeric options.
CLI::Validator positive();
CLI::Validator non_negative();

// Adds an option whose default --help shows; for add_count() a positive number, for add_choice()
// one of `words`.
template <class T>
CLI::Option* add_defaulted(CLI::App& app, const char* names, T& value, const std::string& help) {
  return app.add_option(names, value, help)->capture_default_str();
}
template <class T>
CLI::Option* add_count(CLI::App& app, const char* names, T& value, const std::string& help) {
  return add_defaulted(app, names, value, help)->check(positive());
}
inline CLI::Option* add_choice(CLI::App& app, const char* names, std::string& value,
                               const std::vector<std::string>& words, const std::string& help) {
  return add_defaulted(app, names, value, help)->check(CLI::IsMember(words));
}

// Number of processes in which a program can run.
enum class Processes { kOne, kSeveral };

// Communicator of this job; null until MachineOptions::apply() has joined it.
std::unique_ptr<Communicator>& job();

// Options of every program that computes.
struct MachineOptions {
  std::string device = "auto";
  int threads = 0;
  double rank_timeout = CommunicatorOptions{}.timeout_seconds;

  void add_to(CLI::App& app);
  void add_ranks_to(CLI::App& app);
  // Returns the device to compute on. Joins the other processes of the job, if any.
  Device apply() const;
};

// Adds --set KEY.PATH=VALUE, a repeatable option.
void add_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& help);

// Commit that the program was built from: "9c0a6f5d21", "9c0a6f5d21-dirty" if files had been
// changed, or "unknown".
const char* commit();

// Returns for instance "dtn 0.1.0, GCC 12.2, oneDNN 2.7.1, no CUDA, commit 9c0a6f5d21".
std::string version_line();

// Exit code for an exception.
int exit_code_of(const std::exception& e);

// Reports the error to the user, and ends the other processes of the job. Returns the exit code.
int fail(const std::exception& e);

// Parses the command line, with --help and --version, and runs `body`. Turns an exception of `body`
// into a message and an exit code. In a job, only rank 0 reports errors of the command line.
int run_program(CLI::App& app, int argc, char** argv, Processes processes,
                const std::function<int()>& body);

}  // namespace dtn
