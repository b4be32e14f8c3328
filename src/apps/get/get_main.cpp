#include "dtn/app/get_main.h"

#include <cstdio>
#include <string>

#include "apps/common/program.h"
#include "apps/get/model_download.h"
#include "apps/get/stopped.h"
#include "core/format.h"
#include "core/stop_signal.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn::app {
namespace {

constexpr const char* kAbout =
    "Fetches a public model from the Hugging Face Hub, once. config.json and model.safetensors go\n"
    "to the cache, where the programs find them by the name of the model (--checkpoint, "
    "--weights,\n"
    "model.init_weights). Prints the folder. The next call goes on with a download that ended "
    "early.\n"
    "\n"
    "Environment variables: DTN_CACHE, the cache (default $XDG_CACHE_HOME/dtn or ~/.cache/dtn);\n"
    "HF_ENDPOINT, a mirror of the Hub; HF_TOKEN, for private and gated models, sent to the\n"
    "endpoint alone; HF_HUB_OFFLINE=1, as --offline; https_proxy, http_proxy, all_proxy and\n"
    "no_proxy, as for curl; SSL_CERT_FILE, the certificates to trust.";

// Says how programs name the model.
void print_place(const GetOptions& options, const ModelPlace& place) {
  const std::string name = options.output.empty() ? options.model : place.folder.string();
  log_info(cat("use it: dtn-train FOLDER --weights ", shell_quoted(name),
               ", dtn-eval --checkpoint ", shell_quoted(name)));
  std::printf("%s\n", place.folder.c_str());
}

int run_get(const GetOptions& options, const Registries& registries) {
  const ConfigSchemas schemas = registries.schemas();
  const ModelPlace place = place_of(options, schemas);
  if (!options.force && is_here(place)) {
    log_info(cat(place.model.name(), " is already here; --force fetches it again"));
    print_place(options, place);
    return kExitDone;
  }
  const HubEndpoint endpoint = hub_endpoint();
  if (options.offline || is_hub_offline()) {
    fail_without_network(
        place, endpoint,
        cat(options.offline ? "--offline" : "HF_HUB_OFFLINE", " forbids a connection"));
  }
  std::string problem;
  const std::unique_ptr<HttpTransport> transport = curl_transport(problem);
  if (!transport) fail_without_network(place, endpoint, problem);
  install_stop_signals();
  try {
    get_model(place, options, {*transport, endpoint, options.retries}, schemas);
  } catch (const StoppedError& e) {
    log_warn(cat(e.what(), "; run the same command to go on"));
    return kExitStopped;
  }
  print_place(options, place);
  return kExitDone;
}

}  // namespace

int get_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{kAbout, "dtn-get"};
  GetOptions options;
  app.add_option("model", options.model,
                 "public model that dtn-info --models lists, with or without its tag, or "
                 "OWNER/REPO[@REVISION] of the Hub")
      ->required();
  app.add_option("--output", options.output,
                 "folder for the model (default: the folder of the model in the cache)");
  app.add_flag("--force", options.force, "fetch a model again that is already here");
  app.add_flag("--offline", options.offline, "never open a connection; only look in the folder");
  app.add_flag(
      "--any-config", options.any_config,
      "fetch weights, too, whose config.json dtn cannot read; programs then need --config");
  app.add_option("--retries", options.retries.retries,
                 "attempts after a broken connection or an answer such as 429 or 503")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--retry-wait", options.retries.first_wait,
                 "seconds to wait before the first of these attempts; the wait doubles each time")
      ->check(non_negative())
      ->capture_default_str();
  return run_program(app, argc, argv, Processes::kOne,
                     [&] { return run_get(options, registries); });
}

}  // namespace dtn::app
