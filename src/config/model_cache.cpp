#include "config/model_cache.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>

#include "config/hub.h"
#include "config/presets.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTimm = "timm";  // owner of the public models
constexpr std::size_t kMaxNameLength = 96, kMaxRevisionLength = 128;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// True for a name of the Hub: letters, digits, "-", "_" and ".", which may be the name of a folder.
bool is_hub_name(std::string_view name, std::size_t max_length) {
  return !name.empty() && name.size() <= max_length && name.front() != '.' && name.front() != '-' &&
         name.find("..") == std::string_view::npos && std::ranges::all_of(name, is_name_character);
}

// A revision may have slashes, as in "refs/pr/1".
bool is_revision(std::string_view revision) {
  if (revision.size() > kMaxRevisionLength) return false;
  for (std::size_t end; (end = revision.find('/')) != std::string_view::npos;) {
    if (!is_hub_name(revision.substr(0, end), kMaxRevisionLength)) return false;
    revision.remove_prefix(end + 1);
  }
  return is_hub_name(revision, kMaxRevisionLength);
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

std::optional<fs::path> known_cache() {
  if (const char* folder = variable("DTN_CACHE")) return folder;
  const char* caches = variable("XDG_CACHE_HOME");
  // The specification of the variable says that relative paths are invalid.
  if (caches && fs::path(caches).is_absolute()) return fs::path(caches) / "dtn";
  if (const char* home = variable("HOME")) return fs::path(home) / ".cache" / "dtn";
  return {};
}

// Logs the folder that stands for a name, once per folder.
void say_where(const std::string& named, const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> said;
  const std::lock_guard lock(mutex);
  if (said.insert(folder).second) log_info(cat(named, " is in the cache: ", folder.string()));
}

}  // namespace

std::string HubModel::name() const {
  return cat(owner, "/", repo, revision == "main" ? "" : "@", revision == "main" ? "" : revision);
}

std::optional<HubModel> parse_hub_model(const std::string& name) {
  const std::size_t slash = name.find('/'), at = name.find('@');
  if (slash == std::string::npos) return {};
  if (at < slash) return {};
  HubModel model{.owner = name.substr(0, slash), .repo = name.substr(slash + 1, at - slash - 1)};
  if (at != std::string::npos) model.revision = name.substr(at + 1);
  const bool is_valid = is_hub_name(model.owner, kMaxNameLength) &&
                        is_hub_name(model.repo, kMaxNameLength) && is_revision(model.revision);
  return is_valid ? std::optional(model) : std::nullopt;
}

std::optional<HubModel> find_hub_model(const std::string& name, const ConfigSchemas& schemas) {
  if (const auto known = config::find_public_model(name, schemas)) {
    return HubModel{.owner = kTimm, .repo = known->name()};
  }
  return parse_hub_model(name);
}

fs::path model_cache() {
  if (auto folder = known_cache()) return *folder;
  throw ConfigError("no folder for the cache of models is known; set DTN_CACHE to one");
}

fs::path cache_folder(const HubModel& model) {
  std::string folder = model.repo;
  if (model.revision != "main") {
    folder += "@";
    for (const char c : model.revision) folder += c == '/' ? '+' : c;
  }
  return model_cache() / "models" / model.owner / folder;
}

bool is_hub_folder(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / config::kHubConfig, error) &&
         fs::is_regular_file(folder / kHubWeights, error);
}

fs::path locate_weights(const std::string& named, const ConfigSchemas& schemas) {
  std::error_code error;
  if (named.empty() || fs::exists(named, error)) return named;
  const auto known = config::find_public_model(named, schemas);
  if (!known && (!parse_hub_model(named) || !known_cache())) return named;
  const HubModel model = *find_hub_model(named, schemas);
  fs::path folder = cache_folder(model);
  if (is_hub_folder(folder)) {
    say_where(named, folder);
    return folder;
  }
  if (!known) return named;  // more likely the path of a file that is missing
  throw ConfigError(cat("there is no file or folder ", named,
                        ", and the public model of this name is not in the cache (",
                        folder.string(), "); fetch it: dtn-get ", named));
}

}  // namespace dtn
