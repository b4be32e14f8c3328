#include "dtn/app/sweep_main.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/common/program.h"
#include "apps/estimate/run_size.h"
#include "apps/sweep/robustness_runs.h"
#include "apps/sweep/sweep.h"
#include "core/format.h"
#include "dtn/config/load.h"
#include "dtn/core/parallel.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

struct SweepCommand {
  std::string config, output, results, trainer;
  std::vector<std::string> overrides, suite_roots;
  bool dry_run = false;
  SweepOptions run;
  MachineOptions machine;
};

// Returns a command for the same tables, without options for the folder or the division of work.
std::string command_of(const SweepCommand& options, const fs::path& trainer) {
  std::string command = trainer.empty() ? "dtn-sweep" : trainer.filename().string() + " sweep";
  command += " --config " + shell_quoted(options.config);
  for (const std::string& set : options.overrides) command += " --set " + shell_quoted(set);
  if (options.machine.device != "auto") command += " --device " + options.machine.device;
  return command;
}

// Executes the program of --trainer with the same arguments; it may know more names in configs.
[[noreturn]] void become_trainer(const SweepCommand& options, int argc, char** argv) {
  std::vector<std::string> words = {fs::absolute(options.trainer).string(), "sweep"};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--trainer") {
      ++i;
    } else if (!word.starts_with("--trainer=")) {
      words.push_back(word);
    }
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers.front(), pointers.data());
  throw ConfigError(cat("--trainer ", options.trainer, ": ", std::strerror(errno)));
}

// Parses the values of --suite-root, one "imagenet-c=DIR" for each suite.
std::map<std::string, fs::path> suite_roots_of(const SweepCommand& options) {
  std::map<std::string, fs::path> roots;
  for (const std::string& text : options.suite_roots) {
    const std::size_t equal = text.find('=');
    const std::string suite = text.substr(0, equal);
    if (equal == std::string::npos ||
        std::ranges::find(kSweepSuites, suite) == kSweepSuites.end()) {
      throw ConfigError(cat("--suite-root ", text,
                            ": expected imagenet-c=DIR or imagenet-r=DIR, a suite and its folder"));
    }
    roots[suite] = text.substr(equal + 1);
    if (roots[suite] == kOnTheFly && suite != kSweepSuites.front()) {
      throw ConfigError(cat("--suite-root ", text, ": only imagenet-c works with ", kOnTheFly));
    }
  }
  return roots;
}

int exit_code_of(SweepStatus status) {
  switch (status) {
    case SweepStatus::kFinished: return kExitDone;
    case SweepStatus::kFailed: return kExitFailed;
    case SweepStatus::kStopped: break;
  }
  return kExitStopped;
}

SweepOptions sweep_options_of(const SweepCommand& options, const std::string& name,
                              const Registries& registries, const fs::path& trainer) {
  SweepOptions run = options.run;
  run.threads =
      options.machine.threads > 0 ? options.machine.threads : std::max(1, max_threads() / run.jobs);
  set_num_threads(run.threads);
  run.device = options.machine.apply() == kCpu ? "cpu" : "cuda";
  run.output = options.output.empty() ? fs::path("runs") / name : fs::path(options.output);
  run.results = options.results;
  if (!run.results.empty() &&
      fs::weakly_canonical(run.results) == fs::weakly_canonical(run.output)) {
    throw ConfigError("--results and --output are the same folder; use two folders");
  }
  run.trainer =
      trainer.empty() ? fs::read_symlink("/proc/self/exe").parent_path() / "dtn-train" : trainer;
  run.evaluator = trainer.empty() ? std::vector<std::string>{run.trainer.parent_path() / "dtn-eval"}
                                  : std::vector<std::string>{run.trainer, "eval"};
  run.analyzer = trainer.empty()
                     ? std::vector<std::string>{run.trainer.parent_path() / "dtn-analyze"}
                     : std::vector<std::string>{run.trainer, "analyze"};
  run.sampler = trainer.empty() ? std::vector<std::string>{run.trainer.parent_path() / "dtn-sample"}
                                : std::vector<std::string>{run.trainer, "sample"};
  run.suite_roots = suite_roots_of(options);
  run.registries = &registries;
  run.command = command_of(options, trainer);
  return run;
}

void take_classes_of_variants(SweepConfig& sweep, const Registries& registries) {
  for (SweepVariant& variant : sweep.variants) {
    if (!variant.sets_num_classes) take_num_classes(variant.config, registries);
  }
  SweepSamples& samples = sweep.samples;
  if (samples.judge && !samples.judge_sets_num_classes) {
    take_num_classes(*samples.judge, registries);
  }
}

int run_sweep_command(const SweepCommand& options, const Registries& registries,
                      const fs::path& trainer) {
  const std::string file = find_config(options.config, registries.schemas());
  if (is_sweep_collection(file)) {
    SweepCollection tables = load_sweep_collection(file, options.overrides, registries.schemas());
    for (CollectedSweep& table : tables.tables) {
      if (table.sweep) take_classes_of_variants(*table.sweep, registries);
    }
    const SweepOptions run = sweep_options_of(options, tables.name, registries, trainer);
    if (!options.dry_run) return exit_code_of(run_collection(tables, run));
    describe_collection(tables, run);
    return kExitDone;
  }
  SweepConfig sweep = load_sweep(file, options.overrides, registries.schemas());
  take_classes_of_variants(sweep, registries);
  const SweepOptions run = sweep_options_of(options, sweep.name, registries, trainer);
  if (!options.dry_run) return exit_code_of(run_sweep(sweep, run));
  std::fputs(describe_sweep(sweep, run).text.c_str(), stdout);
  return kExitDone;
}

}  // namespace

int sweep_main(int argc, char** argv, const Registries& registries, const fs::path& trainer) {
  CLI::App app{
      "Trains the variants of a sweep with all their seeds, and writes table.md, table.csv,\n"
      "table.json and figures. The same command continues after an interruption and retries\n"
      "failed runs. If a run fails, the others continue and the exit code is 1.\n"
      "For a file that lists sweeps, runs them one after the other and writes one page of all\n"
      "tables.",
      "dtn-sweep"};
  SweepCommand options;
  app.add_option("--config,config", options.config,
                 "sweep file, or the name of one in configs/sweeps; see docs/sweeps.md")
      ->required();
  app.add_option("--output", options.output, "output folder (default: runs/<name of the sweep>)");
  app.add_option("--results", options.results,
                 "folder for version control: it receives the results of finished runs and the "
                 "tables, and runs with a result in it are not run again")
      ->type_name("DIR");
  add_overrides(app, options.overrides,
                "override one key of every variant: --set data.root=/data/imagenet (repeatable)");
  app.add_option("--trainer", options.trainer,
                 "your own training program, to run instead of dtn-train; it must register all "
                 "rows that the configs name; see docs/extending.md")
      ->type_name("PROGRAM");
  app.add_option("--suite-root", options.suite_roots,
                 "folder of a robustness suite of the sweep: imagenet-c=DIR, or "
                 "imagenet-c=on-the-fly to generate it from the clean images (repeatable)")
      ->type_name("SUITE=DIR");
  app.add_option("--only", options.run.only,
                 "run only these variants, each as variant or variant:seed; for a collection, only "
                 "these sweeps and figures")
      ->type_name("NAME[,NAME...]")
      ->delimiter(',');
  add_defaulted(app, "--jobs", options.run.jobs,
                "number of simultaneous runs; they share the cores unless --threads is given")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--keep-going,!--no-keep-going", options.run.keep_going,
               "continue with the other runs if one fails (default)");
  app.add_flag(
      "--dry-run", options.dry_run,
      "print the runs, their states and the estimated time of the remaining runs, and exit");
  options.machine.add_to(app);
  app.get_option("--threads")->description("computing threads of each run (default: cores / jobs)");
  return run_program(app, argc, argv, Processes::kOne, [&] {
    if (!options.trainer.empty()) become_trainer(options, argc, argv);
    return run_sweep_command(options, registries, trainer);
  });
}

}  // namespace dtn::app
