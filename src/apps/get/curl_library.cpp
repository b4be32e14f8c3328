#ifdef DTN_HAVE_CURL
#include "apps/get/curl_library.h"

#include <dlfcn.h>

#include <csignal>

#include "dtn/core/check.h"

namespace dtn::app {
namespace {

// The names of the library for OpenSSL and for GnuTLS, which git often brings along.
constexpr const char* kCurlFiles[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

void* open_curl() {
  std::string reason;
  for (const char* file : kCurlFiles) {
    if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
    if (reason.empty()) reason = dlerror();
  }
  throw ConfigError(cat("libcurl cannot be loaded (", reason, "; install libcurl4)"));
}

template <class F>
void find_in_curl(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function) throw ConfigError(cat("libcurl has no function ", name, "; install a newer one"));
}

}  // namespace

CurlLibrary::CurlLibrary() {
  void* library = open_curl();
  find_in_curl(library, "curl_global_init", global_init);
  find_in_curl(library, "curl_easy_init", easy_init);
  find_in_curl(library, "curl_easy_cleanup", easy_cleanup);
  find_in_curl(library, "curl_easy_reset", easy_reset);
  find_in_curl(library, "curl_easy_setopt", easy_setopt);
  find_in_curl(library, "curl_easy_perform", easy_perform);
  find_in_curl(library, "curl_easy_getinfo", easy_getinfo);
  find_in_curl(library, "curl_easy_strerror", easy_strerror);
  find_in_curl(library, "curl_slist_append", slist_append);
  find_in_curl(library, "curl_slist_free_all", slist_free_all);
  std::signal(SIGPIPE, SIG_IGN);  // a TLS library may write to a closed connection
  DTN_CHECK(global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl does not start");
}

const CurlLibrary& curl() {
  static const CurlLibrary library;
  return library;
}

}  // namespace dtn::app
#endif
