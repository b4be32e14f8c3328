#include "train/checkpoint.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <system_error>
#include <vector>

#include "core/format.h"
#include "core/text.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "tasks/class_names.h"
#include "tasks/multilabel/threshold.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFormat = "dtn-checkpoint-1";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kDivergedPrefix = "diverged-";

// Keys that this file adds to the metadata. `ema` is 1 if ema.safetensors belongs to the
// checkpoint, so that a lost file is noticed.
constexpr const char* kFormatKey = "format";
constexpr const char* kConfigKey = "config";
constexpr const char* kStepKey = "step";
constexpr const char* kEmaKey = "ema";

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

fs::path checkpoints_of(const fs::path& run_dir) { return run_dir / "checkpoints"; }

std::string folder_name(std::int64_t step) {
  DTN_CHECK(step >= 0, "a checkpoint needs a step of at least 0, got ", step);
  return format("step-%08lld", static_cast<long long>(step));
}

std::optional<std::int64_t> parse_count(std::string_view digits) {
  const auto value = parse_number<std::int64_t>(digits);
  return value && *value >= 0 ? value : std::nullopt;
}

// Returns the step of a folder name, if folder_name() makes this name.
std::optional<std::int64_t> step_of(const fs::path& folder) {
  std::string name = folder.filename().string();
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  auto step = parse_count(std::string_view(name).substr(kStepPrefix.size()));
  return step && folder_name(*step) == name ? step : std::nullopt;
}

std::optional<std::int64_t> linked_step(const fs::path& link) {
  std::error_code error;
  fs::path target = fs::read_symlink(link, error);
  return error ? std::nullopt : step_of(target);
}

// Returns the steps that have a folder, in descending order. Empty if there is no folder of
// checkpoints.
std::vector<std::int64_t> saved_steps(const fs::path& checkpoints) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    std::error_code unreadable;
    if (entry.is_symlink(unreadable) || !entry.is_directory(unreadable)) continue;
    if (auto step = step_of(entry.path())) steps.push_back(*step);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(cat("cannot list ", checkpoints.string(), ": ", error.message()));
  }
  std::ranges::sort(steps, std::greater<>());
  return steps;
}

// Deletes an old checkpoint. A failure only warns, because it must not stop a run.
void remove_old(const fs::path& checkpoint) {
  try {
    remove_directory_atomic(checkpoint);
  } catch (const Error& e) {
    log_warn(cat("cannot remove an old checkpoint: ", e.what()));
  }
}

void prune(const fs::path& checkpoints, std::int64_t step, int keep,
           std::optional<std::int64_t> best_step, const PermanentSteps& permanent) {
  auto last = linked_step(checkpoints / "last");
  auto best = linked_step(checkpoints / "best");
  auto confirmed = linked_step(checkpoints / "confirmed");
  int kept = 0;
  for (std::int64_t s : saved_steps(checkpoints)) {
    if (s > step || kept++ < keep || s == step || last == s || best == s || confirmed == s ||
        best_step == s || permanent.contains(s))
      continue;
    remove_old(checkpoints / folder_name(s));
  }
}

// Metadata that is equal in all files of one checkpoint.
struct Common {
  std::string config;
  std::int64_t step = 0;
  bool operator==(const Common&) const = default;
};

// Removes the keys that this file has added from the metadata, and returns them.
Common take_common(StringMap& metadata, const fs::path& file) {
  auto take = [&](const char* key) {
    auto found = metadata.extract(key);
    if (found.empty()) {
      throw DataError(cat(file.string(),
                          ": not a checkpoint of this program: its metadata has no '", key, "'"));
    }
    return std::move(found.mapped());
  };
  std::string format = take(kFormatKey);
  if (format != kFormat) {
    throw DataError(cat(file.string(), ": checkpoint format '", format, "' is not '", kFormat,
                        "'; use the version of this program that wrote it"));
  }
  Common common;
  common.config = take(kConfigKey);
  std::string step = take(kStepKey);
  auto number = parse_count(step);
  if (!number) throw DataError(cat(file.string(), ": '", step, "' is not a step"));
  common.step = *number;
  return common;
}

void check_same(const Common& state, StringMap metadata, const fs::path& file) {
  if (take_common(metadata, file) != state) {
    throw DataError(cat(file.string(),
                        ": step or config differs from state.safetensors in the same folder, which "
                        "mixes two checkpoints"));
  }
}

bool is_valid(const fs::path& dir) {
  try {
    load_checkpoint(dir);
    return true;
  } catch (const DataError& e) {
    log_warn(cat("skipping the damaged checkpoint ", dir.string(), ": ", e.what()));
    return false;
  }
}

// Returns a number in the metadata of state.safetensors. Nothing if it cannot be read.
std::optional<std::int64_t> number_in_state(const fs::path& checkpoint, const char* key) {
  try {
    const StringMap metadata =
        read_safetensors(checkpoint / "state.safetensors", {.verify_checksums = false, .map = true})
            .metadata;
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::nullopt : parse_count(found->second);
  } catch (const DataError&) {
    return std::nullopt;
  }
}

// Returns true if an evaluation of the weights had a finite loss before the checkpoint was written.
bool says_confirmed(const fs::path& checkpoint) {
  return number_in_state(checkpoint, kConfirmedKey) == 1;
}

// Returns the newest step that is known to be confirmed: the target of `confirmed`, or `last` if
// its metadata says so.
std::optional<std::int64_t> marked_step(const fs::path& checkpoints) {
  const auto marked = linked_step(checkpoints / "confirmed");
  if (marked && is_folder(checkpoints / folder_name(*marked))) return marked;
  const auto last = linked_step(checkpoints / "last");
  return last && says_confirmed(checkpoints / "last") ? last : std::nullopt;
}

// Returns the newest step up to `step` after which an update was made, by the numbers of updates.
// An update is made only if the loss is finite.
std::optional<std::int64_t> newest_with_update(const fs::path& checkpoints, std::int64_t step) {
  std::optional<std::int64_t> most;
  for (const std::int64_t s : saved_steps(checkpoints)) {
    if (s > step) continue;
    const auto updates = number_in_state(checkpoints / folder_name(s), "updates");
    if (!updates) continue;
    if (most && *updates < *most) return s;
    most = updates;
  }
  return std::nullopt;
}

// Returns `last` if it is confirmed, else the newest confirmed step.
std::optional<std::int64_t> newest_confirmed(const fs::path& checkpoints,
                                             std::optional<std::int64_t> marked,
                                             std::optional<std::int64_t> newest) {
  if (!marked) return newest ? newest_with_update(checkpoints, *newest) : std::nullopt;
  const auto last = linked_step(checkpoints / "last");
  const bool stays = last && *last <= *marked && is_folder(checkpoints / folder_name(*last));
  return stays ? last : marked;
}

// Returns the saved steps after `first` up to `end`, in ascending order.
std::vector<std::int64_t> steps_between(const fs::path& checkpoints,
                                        std::optional<std::int64_t> first, std::int64_t end) {
  std::vector<std::int64_t> steps = saved_steps(checkpoints);
  std::erase_if(steps, [&](std::int64_t s) { return s > end || (first && s <= *first); });
  std::ranges::reverse(steps);
  return steps;
}

void remove_link(const fs::path& link) {
  std::error_code error;
  fs::remove(link, error);
  if (error) throw Error(cat("cannot remove the link ", link.string(), ": ", error.message()));
  sync_directory(link.parent_path());
}

// Points `best` at the checkpoint that was the best when `confirmed` was written.
void restore_best(const fs::path& checkpoints, std::optional<std::int64_t> confirmed) {
  std::optional<std::int64_t> best;
  if (confirmed) best = number_in_state(checkpoints / folder_name(*confirmed), "best_step");
  if (best && is_folder(checkpoints / folder_name(*best))) {
    replace_symlink(checkpoints / "best", folder_name(*best));
  } else {
    remove_link(checkpoints / "best");
  }
}

// Renames a checkpoint, and deletes the checkpoints that were set aside before. Returns the new
// path.
fs::path set_aside(const fs::path& checkpoints, std::int64_t step) {
  const std::string name = std::string(kDivergedPrefix) + folder_name(step);
  std::vector<fs::path> earlier;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    const std::string other = entry.path().filename().string();
    if (other.starts_with(kDivergedPrefix) && entry.is_directory()) earlier.push_back(entry);
  }
  for (const fs::path& path : earlier) {
    if (path.filename() == name) remove_directory_atomic(path);
  }
  rename_durably(checkpoints / folder_name(step), checkpoints / name);
  for (const fs::path& path : earlier) {
    if (path.filename() != name) remove_old(path);
  }
  return checkpoints / name;
}

StringMap with_threshold(StringMap metadata, const std::optional<double>& threshold) {
  if (threshold) metadata.emplace(kThresholdKey, threshold_text(*threshold));
  return metadata;
}

}  // namespace

fs::path checkpoint_path(const fs::path& run_dir, std::int64_t step) {
  return checkpoints_of(run_dir) / folder_name(step);
}

void save_checkpoint(const fs::path& run_dir, const CheckpointData& data, int keep,
                     std::optional<std::int64_t> best_step, const PermanentSteps& permanent) {
  fs::path checkpoints = checkpoints_of(run_dir);
  std::error_code error;
  fs::create_directories(checkpoints, error);
  if (error) throw Error(cat("cannot create ", checkpoints.string(), ": ", error.message()));

  StringMap metadata{
      {kFormatKey, kFormat}, {kConfigKey, data.config_yaml}, {kStepKey, std::to_string(data.step)}};
  StringMap state_metadata = metadata;
  state_metadata.emplace(kEmaKey, data.ema.empty() ? "0" : "1");
  for (const auto& [key, value] : data.state_metadata) {
    bool fresh = state_metadata.emplace(key, value).second;
    DTN_CHECK(fresh || state_metadata[key] == value, "state metadata '", key,
              "' contradicts the checkpoint's own");
  }

  if (!data.class_names.empty()) metadata.emplace(kClassNamesKey, as_json(data.class_names));

  fs::path folder = checkpoint_path(run_dir, data.step);
  AtomicDirectory directory(folder);
  write_safetensors(directory.staging() / "model.safetensors", data.model,
                    with_threshold(metadata, data.threshold));
  if (!data.ema.empty()) {
    write_safetensors(directory.staging() / "ema.safetensors", data.ema,
                      with_threshold(metadata, data.ema_threshold));
  }
  write_safetensors(directory.staging() / "state.safetensors", data.state, state_metadata);
  directory.commit();
  // Before `last`: a kill in between resumes from the previous step, which reaches this step again.
  if (data.state_metadata.contains(kConfirmedKey)) {
    replace_symlink(checkpoints / "confirmed", folder.filename());
  }
  if (best_step == data.step) mark_best(run_dir, data.step);
  replace_symlink(checkpoints / "last", folder.filename());
  sync_directory(run_dir);
  prune(checkpoints, data.step, keep, best_step, permanent);
}

void mark_best(const fs::path& run_dir, std::int64_t step) {
  fs::path folder = checkpoint_path(run_dir, step);
  if (!is_folder(folder)) {
    throw Error(cat("cannot mark step ", step, " as best: there is no ", folder.string()));
  }
  replace_symlink(checkpoints_of(run_dir) / "best", folder.filename());
}

bool continue_best(const fs::path& run_dir, const fs::path& resumed,
                   std::optional<std::int64_t> best_step) {
  const fs::path checkpoints = checkpoints_of(run_dir);
  const fs::path link = checkpoints / "best";
  if (best_step) {
    const fs::path own = checkpoint_path(run_dir, *best_step);
    const fs::path source = fs::canonical(resumed).parent_path() / own.filename();
    if (!is_folder(own) && is_folder(source)) {
      std::error_code error;
      fs::create_directories(checkpoints, error);
      AtomicDirectory directory(own);
      if (!error) fs::copy(source, directory.staging(), fs::copy_options::recursive, error);
      if (error) {
        throw Error(
            cat("cannot copy ", source.string(), " to ", own.string(), ": ", error.message()));
      }
      directory.commit();
    }
    if (is_folder(own)) {
      if (linked_step(link) != best_step) replace_symlink(link, own.filename());
      return true;
    }
  }
  if (linked_step(link)) remove_link(link);
  return false;
}

void confirm_checkpoint(const fs::path& run_dir, std::int64_t step, int keep,
                        std::optional<std::int64_t> best_step, const PermanentSteps& permanent) {
  const fs::path checkpoints = checkpoints_of(run_dir), folder = checkpoint_path(run_dir, step);
  if (linked_step(checkpoints / "confirmed") == step || !is_folder(folder)) return;
  replace_symlink(checkpoints / "confirmed", folder.filename());
  prune(checkpoints, step, keep, best_step, permanent);
}

void drop_confirmed_link(const fs::path& run_dir) {
  const fs::path checkpoints = checkpoints_of(run_dir);
  const auto marked = linked_step(checkpoints / "confirmed");
  if (!marked || marked != linked_step(checkpoints / "last")) return;
  if (says_confirmed(checkpoints / "last")) remove_link(checkpoints / "confirmed");
}

Retreat retreat_to_confirmed(const fs::path& run_dir, std::optional<std::int64_t> newest) {
  const fs::path checkpoints = checkpoints_of(run_dir);
  const auto marked = marked_step(checkpoints);
  const auto confirmed = newest_confirmed(checkpoints, marked, newest);
  Retreat retreat;
  if (confirmed) {
    retreat.confirmed = checkpoint_path(run_dir, *confirmed);
    // Before any folder is renamed: a kill in between resumes from the confirmed checkpoint.
    if (linked_step(checkpoints / "last") != confirmed) {
      replace_symlink(checkpoints / "last", folder_name(*confirmed));
    }
  }
  if (!newest || newest <= (marked ? marked : confirmed)) return retreat;
  // If `marked` is set, steps between it and `newest` belong to a run that was wound back, so only
  // `newest` is set aside.
  const auto first = marked ? std::optional(*newest - 1) : confirmed;
  for (const std::int64_t s : steps_between(checkpoints, first, *newest)) {
    if (linked_step(checkpoints / "best") == s) restore_best(checkpoints, confirmed);
    retreat.set_aside = set_aside(checkpoints, s);
  }
  if (!confirmed) remove_link(checkpoints / "last");
  return retreat;
}

CheckpointData load_checkpoint(const fs::path& dir) {
  if (!is_folder(dir)) throw DataError(cat("there is no checkpoint folder ", dir.string()));
  fs::path state_file = dir / "state.safetensors";
  TensorFile state = read_safetensors(state_file);
  Common common = take_common(state.metadata, state_file);
  auto ema_flag = state.metadata.extract(kEmaKey);

  fs::path model_file = dir / "model.safetensors";
  TensorFile model = read_safetensors(model_file);
  check_same(common, model.metadata, model_file);

  CheckpointData data;
  data.class_names = stored_class_names(model.metadata, std::numeric_limits<std::int64_t>::max());
  if (!ema_flag.empty() && ema_flag.mapped() == "1") {
    fs::path ema_file = dir / "ema.safetensors";
    TensorFile ema = read_safetensors(ema_file);
    check_same(common, std::move(ema.metadata), ema_file);
    data.ema = std::move(ema.tensors);
  }
  data.model = std::move(model.tensors);
  data.state = std::move(state.tensors);
  data.state_metadata = std::move(state.metadata);
  data.config_yaml = std::move(common.config);
  data.step = common.step;
  return data;
}

std::optional<fs::path> find_resumable(const fs::path& run_dir) {
  fs::path checkpoints = checkpoints_of(run_dir);
  std::vector<std::int64_t> steps = saved_steps(checkpoints);
  if (is_folder(checkpoints)) remove_stale_temporaries(checkpoints);
  if (steps.empty()) return std::nullopt;
  // Tries the steps up to `last` first, newest first. Steps after `last` belong to a run that was
  // wound back, or are damaged themselves.
  std::int64_t last = linked_step(checkpoints / "last").value_or(steps.front());
  std::stable_partition(steps.begin(), steps.end(), [&](std::int64_t s) { return s <= last; });
  for (std::int64_t step : steps) {
    fs::path folder = checkpoint_path(run_dir, step);
    if (is_valid(folder)) return folder;
  }
  const bool one = steps.size() == 1;
  throw DataError(cat(one ? "the only checkpoint" : cat("all ", steps.size(), " checkpoints"),
                      " in ", checkpoints.string(), one ? " is" : " are",
                      " damaged; restore one, or start a new run in another output folder"));
}

}  // namespace dtn
