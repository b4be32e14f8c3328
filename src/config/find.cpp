#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "config/document.h"
#include "config/hub.h"
#include "config/layers.h"
#include "config/presets.h"
#include "core/installed.h"
#include "dtn/config/load.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

// Returns the folders with configs: those in DTN_CONFIGS, then those of the installation.
std::vector<fs::path> config_folders() {
  std::vector<fs::path> folders;
  if (const char* chosen = std::getenv("DTN_CONFIGS")) {
    std::istringstream list(chosen);
    for (std::string folder; std::getline(list, folder, ':');) {
      if (!folder.empty()) folders.emplace_back(folder);
    }
  }
  for (const fs::path& folder : installed_places("share/dtn/configs")) {
    std::error_code error;
    const fs::path target = fs::canonical(folder, error);  // a link in a build folder
    folders.push_back(error ? folder : target);
  }
  return folders;
}

// Returns all config files below `folder`, sorted, as paths relative to it.
std::vector<fs::path> configs_below(const fs::path& folder) {
  constexpr int kMaxDepth = 8;
  constexpr std::size_t kMaxFiles = 10'000;
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator() && files.size() < kMaxFiles;
       it.increment(error)) {
    if (it.depth() >= kMaxDepth) it.disable_recursion_pending();
    std::error_code ignored;
    if (it->path().extension() == ".yaml" && it->is_regular_file(ignored)) {
      files.push_back(it->path().lexically_relative(folder));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// True if `path` is `name` or ends in "/name".
bool names_file(const fs::path& path, const std::string& name) {
  const std::string text = path.string();
  return text == name || text.ends_with("/" + name);
}

}  // namespace

std::string config::find_shipped_config(const std::string& wanted, const ConfigSchemas& schemas) {
  const std::string name = wanted.ends_with(".yaml") ? wanted : wanted + ".yaml";
  std::vector<std::string> looked = {wanted}, known;
  for (const fs::path& folder : config_folders()) {
    std::vector<fs::path> found;
    for (const fs::path& file : configs_below(folder)) {
      if (names_file(file, name)) found.push_back(folder / file);
      known.push_back(file.stem().string());
    }
    if (found.size() > 1) {
      throw ConfigError(cat("'", config::shown(wanted), "' names several configs: ",
                            found[0].string(), ", ", found[1].string(), "; give the whole path"));
    }
    if (!found.empty()) return found[0].string();
    looked.push_back((folder / "**").string());
  }
  if (find_public_model(wanted, schemas)) return wanted;
  const std::string reason = reason_against(wanted, schemas);
  if (!reason.empty()) throw ConfigError(reason);
  for (std::string& public_name : public_names(schemas)) known.push_back(std::move(public_name));
  throw ConfigError(cat("no config '", config::shown(wanted), "'",
                        config::did_you_mean(fs::path(name).stem().string(), known, "."),
                        " Looked for: ", config::join(looked), "; dtn-info --configs lists all"));
}

std::string config::find_named_file(const std::string& name, const std::string& key,
                                    const Where& where, const fs::path& folder,
                                    const ConfigSchemas& schemas) {
  const fs::path path = (folder / name).lexically_normal();
  std::error_code error;
  if (fs::exists(path, error)) return path.string();
  try {
    return find_shipped_config(name, schemas);
  } catch (const ConfigError& e) {
    fail(where, key, ": no file '", path.string(), "', and ", e.what());
  }
}

std::vector<std::string> shipped_configs() {
  std::vector<std::string> names;
  for (const fs::path& folder : config_folders()) {
    for (const fs::path& file : configs_below(folder)) names.push_back(file.stem().string());
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string find_config(const std::string& file_or_name, const ConfigSchemas& schemas) {
  if (file_or_name.empty()) throw ConfigError("no config is named; give a file or a name");
  std::error_code error;
  const fs::file_status status = fs::status(file_or_name, error);
  if (fs::exists(status) && !fs::is_directory(status)) return file_or_name;
  const fs::path hub = fs::path(file_or_name) / config::kHubConfig;
  if (fs::exists(hub, error)) return hub.string();
  return config::find_shipped_config(file_or_name, schemas);
}

}  // namespace dtn
