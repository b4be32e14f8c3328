// libgomp reads its environment in an initialiser of its shared library. Before those of all shared
// libraries the loader runs what a program lists in .preinit_array. There libc cannot be asked to
// set a variable: it takes the environment over only later, as the array that the system placed
// before the program, which has no room for another entry. So one entry that no library's
// initialiser looks at lends its place, and is put back before main.
#include "app/short_spin.h"

#include <cstdlib>
#include <initializer_list>

namespace dtn {
namespace {

char setting[] = "GOMP_SPINCOUNT=3000";
char* displaced = nullptr;

// Whether an entry of the environment sets the variable. Called before libc is ready.
bool sets(const char* entry, const char* variable) {
  while (*variable && *entry == *variable) ++entry, ++variable;
  return *variable == '\0' && *entry == '=';
}

// The entry that sets the variable, or null.
char** entry_of(char** environment, const char* variable) {
  for (; *environment; ++environment) {
    if (sets(*environment, variable)) return environment;
  }
  return nullptr;
}

void before_libraries(int, char**, char** environment) {
  if (entry_of(environment, "GOMP_SPINCOUNT") || entry_of(environment, "OMP_WAIT_POLICY")) return;
  for (const char* lender : {"_", "SHLVL", "OLDPWD", "PWD", "LOGNAME", "USER", "SHELL", "TERM",
                             "HOSTNAME", "HOME", "PATH"}) {
    if (char** entry = entry_of(environment, lender)) {
      displaced = *entry;
      *entry = setting;
      return;
    }
  }
}

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const run_before_libraries)(int, char**, char**) = before_libraries;

[[gnu::constructor]] void put_back() {
  if (displaced) putenv(displaced);
}

}  // namespace

void spin_briefly() {}

}  // namespace dtn
