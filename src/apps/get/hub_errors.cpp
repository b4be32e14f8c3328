#include "apps/get/hub_errors.h"

#include <string>

#include "config/document.h"
#include "config/hub.h"
#include "dtn/core/check.h"

namespace dtn::app {
namespace {

// The page of a model on the Hub, for people.
std::string page_of(const HubConnection& hub, const WantedFile& wanted) {
  const HubModel& model = wanted.model;
  return cat(hub.endpoint.url.origin(), hub.endpoint.url.path, "/", model.owner, "/", model.repo);
}

std::string token_advice(const HubConnection& hub) {
  if (hub.endpoint.token.empty()) {
    return "make a token on its page settings/tokens, and set HF_TOKEN to it";
  }
  return "the token in HF_TOKEN gives no access; check that it is valid and may read this model";
}

// The Hub also answers 401 for repositories that do not exist, so that nobody can guess names.
std::string why_refused(const HubConnection& hub, const WantedFile& wanted,
                        const std::string& code) {
  const std::string name = wanted.model.name();
  if (code == "GatedRepo") {
    return cat(name, " is gated: accept its conditions on ", page_of(hub, wanted), "; then ",
               token_advice(hub));
  }
  if (code == "RepoNotFound") {
    return cat(name,
               " is private, or not on the Hub (dtn-info --models lists public models); if "
               "it is private, ",
               token_advice(hub));
  }
  return cat(name, " is gated or private, or does not exist: see ", page_of(hub, wanted), "; then ",
             token_advice(hub));
}

std::string why_missing(const WantedFile& wanted, const std::string& code) {
  const std::string name = wanted.model.name();
  if (code == "RevisionNotFound") {
    return cat("the repository of ", name, " has no revision '", wanted.model.revision, "'");
  }
  if (wanted.name == config::kHubConfig && code != "EntryNotFound") {
    return cat(name, " is not on the Hub; dtn-info --models lists the names of public models");
  }
  return cat(name, " has no ", wanted.name,
             wanted.name == config::kHubConfig
                 ? "; dtn-get fetches models with a config.json of timm's"
                 : "; its weights may be a pickle, which docs/weights.md says how to convert");
}

}  // namespace

void fail_download(const HttpResult& result, const HubConnection& hub, const WantedFile& wanted) {
  const std::string server = hub.endpoint.url.origin();
  if (result.end == HttpEnd::kUnreachable || result.end == HttpEnd::kFailed) {
    throw Error(cat("no connection to ", server, " for ", wanted.name, " of ", wanted.model.name(),
                    ": ", config::shown(result.problem),
                    "; check the network, the proxy (https_proxy, no_proxy), the certificates "
                    "(SSL_CERT_FILE) and HF_ENDPOINT"));
  }
  const int status = result.head.status;
  const std::string code = result.head.header("x-error-code");
  const std::string answer = cat(server, " answers ", status, ": ");
  if (status == 401 || status == 403) throw DataError(answer + why_refused(hub, wanted, code));
  if (status == 404) throw DataError(answer + why_missing(wanted, code));
  throw DataError(cat(server, " answers ", status, " for ", wanted.name, " of ",
                      wanted.model.name(), "; check HF_ENDPOINT and the proxy"));
}

}  // namespace dtn::app
