// libcurl, loaded at its first use: linked, it and its libraries would delay the start of every
// program.
#pragma once

#include <curl/curl.h>

namespace dtn::app {

struct CurlLibrary {
  // Throws ConfigError if the library cannot be loaded.
  CurlLibrary();

  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
};

// Never unloaded.
const CurlLibrary& curl();

}  // namespace dtn::app
