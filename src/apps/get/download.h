// Downloads of single files of the Hub, with retries.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "apps/get/hub_endpoint.h"
#include "apps/get/retries.h"

namespace dtn::app {

// The server, and the way to talk to it.
struct HubConnection {
  HttpTransport& transport;
  HubEndpoint endpoint;
  RetryOptions retries;
};

// A file that has arrived.
struct FetchedFile {
  std::string address;
  FileFacts facts;
  std::int64_t size = 0;
  std::string sha256;  // of the bytes that arrived
};

// A file of the Hub that is to be fetched.
struct WantedFile {
  HubModel model;  // its revision may be a commit
  std::string name;
};

// Returns the text of a small file. Throws DataError if the server lacks it or it is longer than
// `max_bytes`, and Error if the server cannot be reached.
std::string fetch_text(const HubConnection& hub, const WantedFile& wanted, std::int64_t max_bytes,
                       FetchedFile& fetched);

// Fetches a safetensors file to `path`, through `path`.part, which remains if the download ends
// early: the next call goes on there. Checks the size and, if the server names it, the SHA-256, and
// that the header is one of safetensors. Throws as fetch_text() does, and StoppedError.
FetchedFile fetch_weights(const HubConnection& hub, const WantedFile& wanted,
                          const std::filesystem::path& path);

}  // namespace dtn::app
