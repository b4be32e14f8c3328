// The cache of models of the Hugging Face Hub, which dtn-get fills. Nothing here opens a
// connection.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "dtn/config/schemas.h"

namespace dtn {

inline constexpr const char* kHubWeights = "model.safetensors";

// A model of the Hub: a repository at a revision.
struct HubModel {
  std::string owner, repo;
  std::string revision = "main";  // a branch, a tag or a commit

  // "owner/repo", with "@revision" if that is not main.
  std::string name() const;
  bool operator==(const HubModel&) const = default;
};

// Parses "owner/repo" or "owner/repo@revision". Returns nothing for other texts, and for names that
// could lead out of a folder, such as "../x".
std::optional<HubModel> parse_hub_model(const std::string& name);
// Returns the same for such a name; for the name of a public model, with or without its tag, timm's
// repository of it.
std::optional<HubModel> find_hub_model(const std::string& name, const ConfigSchemas& schemas);

// Returns the folder of the cache: $DTN_CACHE, or $XDG_CACHE_HOME/dtn, or ~/.cache/dtn. Throws
// ConfigError if none of these is known.
std::filesystem::path model_cache();
// Returns the folder of a model in the cache.
std::filesystem::path cache_folder(const HubModel& model);
// True if a folder has both files of a model. Each appears there only when it is whole.
bool is_hub_folder(const std::filesystem::path& folder);

// Returns the file or folder that a name of weights means: a path that exists, or else the folder
// of a model in the cache. Logs once which folder of the cache it takes. Returns other names
// unchanged. Throws ConfigError, with the command that fetches it, for a public model that is not
// in the cache.
std::filesystem::path locate_weights(const std::string& named, const ConfigSchemas& schemas);

}  // namespace dtn
