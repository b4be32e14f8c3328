#include "apps/sweep/run_evaluation.h"

#include "apps/sweep/child_wait.h"
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

SweepStatus evaluate_run(const SweepConfig& sweep, const SweepOptions& options, const SweepRun& run,
                         const RunEvaluation& evaluation) {
  const std::string log = evaluation.log.string();
  log_info(cat(run.id, ": evaluating ", evaluation.title, "; log in ", log));
  ChildProcess child(evaluator_command(sweep, options, evaluation), evaluation.log);
  const ChildExit exit = wait_or_stop(child);
  if (exit.code == kExitStopped || (stop_requested() && exit.signal != 0)) {
    return SweepStatus::kStopped;
  }
  if (exit.code == 0 && exit.signal == 0) {
    if (const auto text = evaluation.result()) {
      log_info(cat(run.id, ": ", *text));
      return SweepStatus::kFinished;
    }
  }
  log_warn(cat(run.id, ": evaluating ", evaluation.title, " failed with ",
               exit.signal ? cat("signal ", exit.signal) : cat("exit code ", exit.code), "; see ",
               log, "; run the same command again to retry"));
  return SweepStatus::kFailed;
}

}  // namespace dtn
