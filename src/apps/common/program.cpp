#include "apps/common/program.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>
#include <string_view>
#include <thread>

#include "apps/common/commands.h"
#include "apps/common/complete.h"
#include "apps/common/help_format.h"
#include "apps/common/man_page.h"
#include "config/codec.h"
#include "config/document.h"
#include "config/key_docs.h"
#include "core/cuda_device.h"
#include "core/progress.h"
#include "core/stop_signal.h"
#include "dist/device_transport.h"
#include "dist/launch.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"
#include "dtn/core/version.h"
#include "dtn/tasks/registries.h"
#include "kernels/gemm/gemm.h"

namespace dtn {
namespace {

// By default, idle libgomp threads spin for a millisecond or more before they sleep. On a busy
// machine, this takes time from the threads that have work, such as loader threads. libgomp reads
// the spin count from its environment when it is loaded, so the program sets it and starts anew.
// This happens before main, as a user's main must not run twice. glibc passes the arguments.
[[gnu::constructor]] void limit_spin(int, char** argv) {
  constexpr const char* kVariable = "GOMP_SPINCOUNT";
  if (std::getenv(kVariable) || std::getenv("OMP_WAIT_POLICY")) return;
  ::setenv(kVariable, "3000", 0);
  ::execv(std::bit_cast<const char*>(::getauxval(AT_EXECFN)), argv);
  // If the system refuses, the program goes on with the default.
}

constexpr std::size_t kHelpColumns = 80, kMaxHelpColumns = 100;  // without a terminal; at most
constexpr const char* kExitCodesHelp =
    "Exit codes: 0 done, 1 system error or bug, 2 bad usage or config, 3 data, "
    "4 training diverged, 75 stopped by SIGTERM, SIGINT or SIGUSR1 after a checkpoint.";

CLI::Validator number_that(const char* wanted, const char* type, bool (*holds)(double)) {
  return CLI::Validator(
      [=](const std::string& text) {
        double value = 0;
        if (config::parse_number(text, value) && holds(value)) return std::string();
        return cat("must be a number ", wanted, ", not '", config::shown(text), "'");
      },
      type);
}

// Selects one of the machine's devices for this process, and opens the transport by which all
// processes exchange device data.
void open_device_of(Communicator& ranks) {
  Communicator::Work opening(ranks, "opening its device", Communicator::Work::kLong);
  const std::vector<int> devices = cuda::usable_devices();
  if (devices.empty()) throw ConfigError(cat("--device cuda: ", cuda::unavailable_reason()));
  cuda::select_device(devices[static_cast<std::size_t>(ranks.local_rank()) % devices.size()]);
  ranks.set_device_transport(
      open_device_transport(ranks.rank(), ranks.size(), [&](std::byte* data, std::size_t n) {
        Tensor bytes = Tensor::empty({static_cast<std::int64_t>(n)}, DType::kUInt8);
        std::memcpy(bytes.raw(), data, n);
        ranks.broadcast(bytes);
        std::memcpy(data, bytes.raw(), n);
      }));
}

// Open MPI's mpirun prints a banner when a process ends its job, unless it is told to be quiet, as
// dtn-mpirun does. Without quiet mode, the error is repeated below the banner.
void log_last(const std::string& error) {
  log_error(error);
  const bool quiet = std::getenv("OMPI_MCA_orte_execute_quiet") != nullptr;
  if (std::getenv("OMPI_COMM_WORLD_SIZE") && launch().size > 1 && !quiet) {
    repeat_error_at_the_end(error);
  }
}

// Every process meets an error such as an invalid config. Only rank 0 reports it: the others wait,
// and end with the job.
void wait_unless_first() {
  if (launch().rank > 0) std::this_thread::sleep_for(std::chrono::seconds(5));
}

}  // namespace

std::unique_ptr<Communicator>& job() {
  static std::unique_ptr<Communicator> ranks;
  return ranks;
}

CLI::Validator positive() {
  return number_that("above 0", "POSITIVE", [](double value) { return value > 0; });
}
CLI::Validator non_negative() {
  return number_that("of at least 0", "NONNEGATIVE", [](double value) { return value >= 0; });
}

void MachineOptions::add_to(CLI::App& app) {
  add_defaulted(app, "--device", device, "cpu, cuda or auto")->group(app::kMachineGroup);
  app.add_option("--threads", threads,
                 "computing threads (default: one per core; the processes of a job share the cores "
                 "of their machine)")
      ->check(positive())
      ->group(app::kMachineGroup);
}

void MachineOptions::add_ranks_to(CLI::App& app) {
  add_defaulted(app, "--rank-timeout", rank_timeout,
                "in a job of several processes: seconds to wait for a process that does not "
                "respond, before the job ends; 0: wait forever")
      ->check(non_negative())
      ->group(app::kMachineGroup);
}

void add_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& help) {
  app.add_option("--set", overrides, help)
      ->type_name("KEY.PATH=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

Device MachineOptions::apply() const {
  job() = join_job({.timeout_seconds = rank_timeout});
  Communicator& ranks = *job();
  log_as_rank(ranks.rank());
  if (threads > 0) {
    set_num_threads(threads);
  } else if (!ranks.is_single()) {
    set_num_threads(share_of_cores(ranks));
  }
  const Device chosen = parse_device(device);
  const std::int64_t on_devices = ranks.sum(chosen.type == DeviceType::kCuda);
  if (on_devices != 0 && on_devices != ranks.size()) {
    throw ConfigError(cat("--device ", device, ": only ", on_devices, " of ", ranks.size(),
                          " processes found a working CUDA device; --device cuda shows the error "
                          "of the others, --device cpu uses no GPU"));
  }
  if (chosen.type == DeviceType::kCuda && !ranks.is_single()) open_device_of(ranks);
  return chosen;
}

std::string version_line() {
#if defined(__clang__)
  const std::string compiler = cat("Clang ", __clang_major__, ".", __clang_minor__);
#else
  const std::string compiler = cat("GCC ", __GNUC__, ".", __GNUC_MINOR__);
#endif
  return cat("dtn ", version(), ", ", compiler, ", ", gemm_library(), ", ", cuda::toolkit(),
             ", commit ", commit());
}

int exit_code_of(const std::exception& e) {
  if (dynamic_cast<const ConfigError*>(&e)) return kExitUsage;
  if (dynamic_cast<const DataError*>(&e)) return kExitData;
  if (dynamic_cast<const DivergedError*>(&e)) return kExitDiverged;
  return kExitFailed;
}

namespace {

// Error message in our own format. The standard library begins with "filesystem error" and puts the
// path last, in brackets.
std::string text_of(const std::exception& e) {
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&e)) {
    const std::string paths =
        cat(file->path1().string(), file->path2().empty() ? "" : " or ", file->path2().string());
    // "filesystem error: cannot create directories: No such file or directory [/a/b]"
    constexpr std::string_view kBegin = "filesystem error: ";
    std::string doing = e.what();
    if (doing.starts_with(kBegin)) doing.erase(0, kBegin.size());
    doing = doing.substr(0, doing.find(": "));
    return cat(paths.empty() ? "the file system" : paths, ": ", doing, ": ",
               file->code().message());
  }
  if (dynamic_cast<const std::bad_alloc*>(&e)) return "out of memory";
  return e.what();
}

}  // namespace

int fail(const std::exception& e) {
  const int code = exit_code_of(e);
  Communicator* ranks = job().get();
  wait_unless_first();
  log_last(text_of(e));
  if (ranks && !ranks->is_single()) ranks->abort(code);
  return code;
}

namespace {

// Returns all `--` options of `app` and of the subcommand that the command line names.
std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* subcommand : app.get_subcommands()) {
    for (const std::string& name : options_of(*subcommand)) names.push_back(name);
  }
  return names;
}

// Returns the subcommands that may follow; none if the command line already names one.
std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> names;
  if (!app.get_subcommands().empty()) return names;
  for (const CLI::App* subcommand : app.get_subcommands({}))
    names.push_back(subcommand->get_name());
  return names;
}

// True if the program, or the subcommand that the command line names, has --set.
bool takes_overrides(const CLI::App& app) {
  return std::ranges::count(options_of(app), "--set") > 0;
}

// Returns the config key that an option such as --lr probably means; empty if there is none.
std::string key_meant_by(const std::string& option) {
  std::set<std::string> known;
  for (const config::KeyDoc& doc : config::key_docs(standard_registries().schemas())) {
    known.insert(doc.path);
  }
  const std::size_t begin = option.find_first_not_of('-');
  if (begin == std::string::npos) return {};
  const std::vector<std::string> paths = config::paths_meant_by(option.substr(begin), known);
  return paths.empty() ? std::string() : paths.back();
}

// Describes the error in a command line, and how to fix it.
std::string complaint(const CLI::App& app, const CLI::ParseError& e) {
  const std::string advice = cat("; ", app.get_name(), " --help lists the options");
  const std::vector<std::string> extra = app.remaining(true);
  if (extra.empty()) return e.what() + advice;
  const std::string word = extra.front().substr(0, extra.front().find('='));
  if (!word.starts_with("-")) {
    const std::string command = config::did_you_mean(word, subcommands_of(app));
    return cat("unexpected argument '", word, "'", command.empty() ? advice : command);
  }
  if (const std::string option = config::guess(word, options_of(app)); !option.empty()) {
    return cat("unknown option ", word, "; did you mean ", option, "?");
  }
  const std::string key = takes_overrides(app) ? key_meant_by(word) : "";
  if (!key.empty()) {
    return cat("unknown option ", word, "; set the config key: --set ", key, "=...");
  }
  return cat("unknown option ", word, advice);
}

// Handles a command line that asks for help or is invalid. Returns the exit code.
int explain(const CLI::App& app, const CLI::ParseError& e) {
  if (e.get_exit_code() == 0) {
    app.exit(e);
    return kExitDone;
  }
  log_last(complaint(app, e));
  return kExitUsage;
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, Processes processes,
                const std::function<int()>& body) {
  app.set_version_flag("--version", version_line());
  const app::Command& command = app::command_of_program(app.get_name());
  app.footer(app::examples_help(command) + kExitCodesHelp);
  bool manual = false;
  app.add_flag("--man", manual, "print this help as a manual page; `man -l -` shows it");
  for (const char* name : {"--help", "--version", "--man"}) {
    app.get_option(name)->group(app::kHelpGroup);
  }
  app::format_help(app, std::clamp<std::size_t>(output_columns(kHelpColumns), 40, kMaxHelpColumns));
  if (const char* line = std::getenv(kCompletionVariable)) {
    for (const std::string& word : completions(app, line)) std::puts(word.c_str());
    return kExitDone;
  }
  if (std::any_of(argv + 1, argv + argc, [](std::string_view word) { return word == "--man"; })) {
    const std::string page = app::man_page(app, command, cat("dtn ", version()), kExitCodesHelp);
    std::fputs(page.c_str(), stdout);
    return kExitDone;
  }
  const Launch launched = launch();
  if (argc == 1) {  // every program needs arguments
    if (launched.rank == 0) std::fputs(app.help().c_str(), stderr);
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (launched.rank > 0) {
      wait_unless_first();
      return e.get_exit_code() == 0 ? kExitDone : kExitUsage;
    }
    return explain(app, e);
  }
  if (processes == Processes::kOne && launched.size > 1) {
    wait_unless_first();
    if (launched.rank == 0) {
      log_last(cat(app.get_name(), " works in one process; start it without mpirun or srun"));
    }
    return kExitUsage;
  }
  watch_stop_signals();
  try {
    const int code = body();
    job().reset();  // waits for the others
    return code;
  } catch (const std::exception& e) {
    return fail(e);
  }
}

}  // namespace dtn
