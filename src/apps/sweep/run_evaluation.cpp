#include "apps/sweep/run_evaluation.h"

#include "apps/sweep/child_wait.h"
#include "config/codec.h"
#include "core/exit_code.h"
#include "core/stop_signal.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/child_process.h"

namespace dtn {
namespace {

std::vector<std::string> evaluator_command(const SweepConfig& sweep, const SweepOptions& options,
                                           const RunEvaluation& evaluation) {
  std::vector<std::string> command = options.evaluator;
  command.insert(command.end(), {"--checkpoint", evaluation.checkpoint.string()});
  command.insert(command.end(), evaluation.options.begin(), evaluation.options.end());
  command.insert(command.end(), {"--device", options.device, "--threads",
                                 std::to_string(options.threads * options.jobs)});
  if (sweep.ema) command.emplace_back("--ema");
  return command;
}

}  // namespace

bool has_weights(const SweepRun& run) {
  return std::filesystem::exists(run.folder / "checkpoints" / "last");
}

SweepStatus run_logged(const SweepRun& run, const RunProgram& program) {
  const std::string log = program.log.string();
  log_info(cat(run.id, ": ", program.title, "; log in ", log));
  ChildProcess child(program.command, program.log);
  const ChildExit exit = wait_or_stop(child);
  if (exit.code == kExitStopped || (stop_requested() && exit.signal != 0)) {
    return SweepStatus::kStopped;
  }
  if (exit.code == 0 && exit.signal == 0) {
    if (const auto text = program.result()) {
      if (!text->empty()) log_info(cat(run.id, ": ", *text));
      return SweepStatus::kFinished;
    }
  }
  log_warn(cat(run.id, ": ", program.title, " failed with ",
               exit.signal ? cat("signal ", exit.signal) : cat("exit code ", exit.code), "; see ",
               log, "; run the same command again to retry"));
  return SweepStatus::kFailed;
}

void add_data_options(const DataConfig& data, std::vector<std::string>& command) {
  const auto add = [&](const char* key, const std::string& value) {
    command.insert(command.end(), {"--set", cat("data.", key, "=", config::string_text(value))});
  };
  if (!data.root.empty()) add("root", data.root);
  if (data.train) add("train", *data.train);
  if (data.val) add("val", *data.val);
  if (data.labels) add("labels", *data.labels);
}

SweepStatus evaluate_run(const SweepConfig& sweep, const SweepOptions& options, const SweepRun& run,
                         const RunEvaluation& evaluation) {
  return run_logged(run, {.title = "evaluating " + evaluation.title,
                          .command = evaluator_command(sweep, options, evaluation),
                          .log = evaluation.log,
                          .result = evaluation.result});
}

}  // namespace dtn
