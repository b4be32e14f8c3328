#include <system_error>

#include "apps/get/fetch_record.h"
#include "apps/get/model_download.h"
#include "config/document.h"
#include "config/hub.h"
#include "config/presets.h"
#include "dtn/core/check.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFiles[] = {config::kHubConfig, kHubWeights};

}  // namespace

ModelPlace place_of(const GetOptions& options, const ConfigSchemas& schemas) {
  const std::string& name = options.model;
  const auto model = find_hub_model(name, schemas);
  if (!model) {
    const std::string reason = config::reason_against(name, schemas);
    if (!reason.empty()) throw ConfigError(reason);
    throw ConfigError(cat("no public model '", config::shown(name), "'",
                          config::did_you_mean(name, config::public_names(schemas), ";"),
                          " dtn-info --models lists them; another model of the Hugging Face Hub "
                          "is named OWNER/REPO or OWNER/REPO@REVISION"));
  }
  return {*model, options.output.empty() ? cache_folder(*model) : fs::path(options.output)};
}

bool is_here(const ModelPlace& place) {
  const FetchRecord record = read_record(place.folder);
  if (!record.model.empty() && record.model != place.model.name()) {
    throw ConfigError(cat(place.folder.string(), " holds the model ", record.model,
                          "; choose another folder for ", place.model.name()));
  }
  if (!is_hub_folder(place.folder)) return false;
  for (const char* name : kFiles) {
    const auto known = record.sizes.find(name);
    std::error_code none;
    const auto size = fs::file_size(place.folder / name, none);
    if (none || known == record.sizes.end()) continue;  // filled by hand
    if (static_cast<std::int64_t>(size) == known->second) continue;
    throw DataError(cat((place.folder / name).string(), " has ", size, " bytes, but ",
                        known->second, " were fetched; fetch it again with --force"));
  }
  return true;
}

void fail_without_network(const ModelPlace& place, const HubEndpoint& endpoint,
                          const std::string& reason) {
  std::string missing, addresses;
  for (const char* name : kFiles) {
    std::error_code none;
    if (fs::exists(place.folder / name, none)) continue;
    missing += cat(missing.empty() ? "" : " and ", name);
    addresses += cat(" ", endpoint.address(place.model, name));
  }
  if (missing.empty()) {
    throw DataError(cat(place.model.name(), " is in ", place.folder.string(),
                        ", but cannot be fetched again: ", reason));
  }
  throw DataError(cat(place.folder.string(), " lacks ", missing, " of ", place.model.name(),
                      ", and ", reason,
                      ". Copy the folder from a machine with a connection, or put these files "
                      "there:",
                      addresses));
}

}  // namespace dtn::app
