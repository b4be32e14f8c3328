// dtn-sweep: trains every variant of an experiment from every seed and tabulates the results.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "app/program.h"
#include "dtn/config/load.h"
#include "dtn/core/parallel.h"
#include "dtn/tasks/registries.h"
#include "sweep/sweep.h"

namespace fs = std::filesystem;

namespace {

struct Options {
  std::string config, output, trainer;
  std::vector<std::string> overrides, only;
  int jobs = 1;
  bool dry_run = false, keep_going = true;
  dtn::MachineOptions machine;
};

std::string quoted(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_./=:,+-").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// What gives the same tables: neither the folder nor how the work is divided matters.
std::string command_of(const Options& options) {
  std::string command = "dtn-sweep --config " + quoted(options.config);
  for (const std::string& set : options.overrides) command += " --set " + quoted(set);
  if (options.machine.device != "auto") command += " --device " + options.machine.device;
  return command;
}

// The program named with --trainer, or the dtn-train beside this one.
fs::path trainer_of(const Options& options) {
  if (options.trainer.empty()) {
    return fs::read_symlink("/proc/self/exe").parent_path() / "dtn-train";
  }
  if (!fs::is_regular_file(options.trainer)) {
    throw dtn::ConfigError(dtn::cat("--trainer ", options.trainer, ": there is no such program"));
  }
  return fs::absolute(options.trainer);
}

int sweep(const Options& options) {
  const dtn::SweepConfig config = dtn::load_sweep(
      dtn::find_config(options.config), options.overrides, dtn::standard_registries().schemas());
  dtn::SweepOptions run;
  run.jobs = options.jobs;
  run.threads = options.machine.threads > 0 ? options.machine.threads
                                            : std::max(1, dtn::max_threads() / options.jobs);
  dtn::set_num_threads(run.threads);
  run.device = options.machine.apply() == dtn::kCpu ? "cpu" : "cuda";
  run.output = options.output.empty() ? fs::path("runs") / config.name : fs::path(options.output);
  run.trainer = trainer_of(options);
  run.only = options.only;
  run.keep_going = options.keep_going;
  run.command = command_of(options);
  if (options.dry_run) {
    std::fputs(dtn::describe_sweep(config, run).c_str(), stdout);
    return dtn::kExitDone;
  }
  switch (dtn::run_sweep(config, run)) {
    case dtn::SweepStatus::kFinished: return dtn::kExitDone;
    case dtn::SweepStatus::kFailed: return dtn::kExitFailed;
    case dtn::SweepStatus::kStopped: break;
  }
  return dtn::kExitStopped;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Trains the variants of a sweep from all their seeds, and writes table.md, table.csv,\n"
      "table.json and curves.png. The same command goes on after any interruption, and tries\n"
      "failed runs again. When a run failed, the others go on and the exit code is 1.",
      "dtn-sweep"};
  Options options;
  app.add_option("--config", options.config,
                 "sweep file, or the name of one that ships in configs/sweeps; see docs/sweeps.md")
      ->required();
  app.add_option("--output", options.output, "folder (default: runs/<name of the sweep>)");
  app.add_option("--set", options.overrides,
                 "override one key of every variant: --set data.root=/data/imagenet (repeatable)")
      ->type_name("KEY.PATH=VALUE")
      ->take_all()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--trainer", options.trainer,
                 "program that trains in the place of dtn-train: one of your own, see "
                 "docs/extending.md")
      ->type_name("PROGRAM");
  app.add_option("--only", options.only, "these variants, or variant:seed, and not the others")
      ->type_name("NAME[,NAME...]")
      ->delimiter(',');
  app.add_option("--jobs", options.jobs,
                 "runs at a time, each on its share of the cores, or on --threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--keep-going,!--no-keep-going", options.keep_going,
               "go on with the other runs when one fails (default)");
  app.add_flag("--dry-run", options.dry_run,
               "print the runs, what is done and how long the rest might take, and exit");
  options.machine.add_to(app);
  app.get_option("--threads")->description("computing threads of each run (default: cores / jobs)");
  return dtn::run_program(app, argc, argv, dtn::Processes::kOne, [&] { return sweep(options); });
}
