// Downloads of whole models: a folder as on the Hub, with config.json and model.safetensors.
#pragma once

#include <filesystem>
#include <string>

#include "apps/get/download.h"
#include "dtn/config/schemas.h"

namespace dtn::app {

struct GetOptions {
  std::string model;   // a public model, or "owner/repo[@revision]"
  std::string output;  // folder; empty: in the cache
  bool force = false, offline = false, any_config = false;
  RetryOptions retries;
};

// A model to fetch, and its folder on this machine.
struct ModelPlace {
  HubModel model;
  std::filesystem::path folder;
};

// Throws ConfigError for a name that is neither a public model nor one of the Hub, with the nearest
// public name.
ModelPlace place_of(const GetOptions& options, const ConfigSchemas& schemas);

// True if the folder has the model, so that there is nothing to do. Throws ConfigError if it has
// another model, and DataError if a file is not as long as it was.
bool is_here(const ModelPlace& place);

// Throws DataError with the addresses and the folder to fill by hand. `reason` says why nothing can
// be fetched.
[[noreturn]] void fail_without_network(const ModelPlace& place, const HubEndpoint& endpoint,
                                       const std::string& reason);

// Fetches the model. Reads config.json first: throws ConfigError for a model that cannot be loaded,
// before its weights are fetched. Waits while another process fetches into the folder.
void get_model(const ModelPlace& place, const GetOptions& options, const HubConnection& hub,
               const ConfigSchemas& schemas);

}  // namespace dtn::app
