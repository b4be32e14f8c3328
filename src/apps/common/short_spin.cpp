// libgomp reads its environment in an initializer of its shared library. The loader runs the
// functions in a program's .preinit_array before the initializers of all shared libraries. At that
// time setenv() does not work: libc takes over the environment only later. It then takes the array
// that the system placed before the program, and this array has no room for another entry. So the
// code replaces an entry that no initializer of a library reads, and restores it before main.
#include "apps/common/short_spin.h"

#include <cstdlib>
#include <initializer_list>

namespace dtn {
namespace {

char setting[] = "GOMP_SPINCOUNT=3000";
char* displaced = nullptr;

// True if an entry of the environment sets the variable. Called before libc is initialized.
bool sets(const char* entry, const char* variable) {
  while (*variable && *entry == *variable) ++entry, ++variable;
  return *variable == '\0' && *entry == '=';
}

// Returns the entry that sets the variable, or null.
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
